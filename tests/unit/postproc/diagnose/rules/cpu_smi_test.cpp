#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/report/wording.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_smi_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& per_second, double corrected = 0) {
  R node;
  node.counter("platform.smi", "cpu0", per_second, "node");
  node.counter("platform.smi", "cpu1", per_second, "node");
  if (corrected > 0) node.counter("edac.corrected", "mc0", R::always(corrected), "node");
  return node.findings("cpu.smi_noise");
}

TEST(RuleSmi, CountsTheInterruptsOfOneCpuNotOfAll) {
  const auto found = of(R::always(8));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 8 * 120, 20);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_EQ(found[0].runner_up.id, "cpu.os_jitter");
  EXPECT_EQ(found[0].sentence.find("usually"), std::string::npos) << "nobody measured how many are usual here";
  EXPECT_TRUE(only_admins_act(found[0].remedy));
}

TEST(RuleSmi, PointsAtMemoryErrorsWhereThereWereSome) {
  EXPECT_EQ(of(R::always(8), 5).at(0).runner_up.id, "mem.ecc_host");
}

TEST(RuleSmi, LeavesTheFirmwaresHabitsAlone) {
  EXPECT_TRUE(of(R::always(0)).empty());
  EXPECT_TRUE(of(R::always(0.05)).empty()) << "one in 20 s";
  EXPECT_TRUE(of([](double second) { return second < 20 ? 30.0 : 0.0; }).empty()) << "a burst at the start";
}

TEST(RuleSmi, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.smi_noise")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_smi_test
