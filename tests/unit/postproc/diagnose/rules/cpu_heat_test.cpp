#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_heat_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(double core_share, double package_share = 0) {
  R node;
  node.counter("throttle.core_time", "cpu0", R::event(0, core_share * 1e9), "node");
  node.counter("throttle.core_time", "cpu4", R::event(0, core_share * 0.2e9), "node");
  node.counter("throttle.package_time", "package0", R::event(0, package_share * 1e9), "node");
  node.gauge("temperature.package", "package0", R::event(60, 98), "node");
  return node.findings("cpu.thermal_throttle");
}

TEST(RuleHeat, NamesWhatWasSlowedDownLongest) {
  const auto found = of(0.9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu0"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 13.5, 0.8);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 98, 0.1);
  EXPECT_EQ(of(0.1, 0.5).at(0).instances, std::vector<std::string>{"package0"});
}

TEST(RuleHeat, IsANoticeWhereItWasBriefAndNothingWhereItWasNot) {
  EXPECT_EQ(of(0.1).at(0).severity, Severity::notice);
  EXPECT_TRUE(of(0).empty());
}

TEST(RuleHeat, TakesASumOverManyCoresForNoCore) {
  R node;
  node.counter("throttle.core_time", "other_cpus", R::always(0.2e9), "node");
  EXPECT_TRUE(node.findings("cpu.thermal_throttle").empty());
}

TEST(RuleHeat, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.thermal_throttle")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_heat_test
