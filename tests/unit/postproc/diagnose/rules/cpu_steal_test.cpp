#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& steal) {
  R node;
  node.counter("cpu.steal", "cpu0", [=](double second) { return 1e9 * steal(second); });
  node.counter("cpu.user", "cpu0", R::always(1.8e9)).counter("cpu.system", "cpu0", R::always(0.1e9));
  return node.findings("cpu.steal");
}

TEST(RuleSteal, SaysHowMuchTheHypervisorTook) {
  const auto found = of(R::event(0, 0.5));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.5 / 2.4, 0.4);
  EXPECT_NE(found[0].sentence.find("0.4"), std::string::npos) << found[0].sentence;
}

TEST(RuleSteal, FindsAHostThatIsOvercommittedAllTheTime) {
  ASSERT_EQ(of(R::always(0.3)).size(), 1U);
}

TEST(RuleSteal, IsSilentBelowItsShare) {
  EXPECT_TRUE(of(R::always(0)).empty());
  EXPECT_TRUE(of(R::always(0.01)).empty());
}

TEST(RuleSteal, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.steal")), Unavailable);
}

}  // namespace
}  // namespace reveal
