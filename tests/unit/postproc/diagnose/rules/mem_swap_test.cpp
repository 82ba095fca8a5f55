#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_swap_test {
namespace {

using R = RuleRecording;
constexpr double kPages = 1000;  // a second: 4.1 MB

std::vector<Finding> of(const R::Course& in) {
  R node;
  node.counter("vmstat.pswpin", "", in).counter("vmstat.pswpout", "", R::always(kPages));
  node.counter("pressure.memory_some", "", R::event(0, 0.4e9));
  return node.findings("mem.swap_activity");
}

TEST(RuleSwap, FindsTheIntervalInWhichPagesCameBack) {
  const auto found = of(R::event(0, kPages));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).end_utc_ns) * 1e-9, 65, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 15, 1);
  EXPECT_EQ(found[0].severity, Severity::warning);
}

TEST(RuleSwap, FindsAJobThatSwapsAllTheTime) {
  const auto found = of(R::always(kPages));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(static_cast<double>(found[0].intervals.at(0).end_utc_ns - found[0].intervals.at(0).begin_utc_ns), 110e9);
}

TEST(RuleSwap, TakesPagesThatOnlyLeaveForUnused) {
  EXPECT_TRUE(of(R::always(0)).empty());
}

TEST(RuleSwap, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.swap_activity")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::mem_swap_test
