#include <gtest/gtest.h>

#include "gpu_training.h"

namespace reveal::tests::gpu_power_cap_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuPowerCap, IsAFindingOnlyBelowTheUsualLimit) {
  GpuTraining capped;
  capped.fact("power_limit", "400", 1);
  const auto found = capped.findings("gpu.power_cap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The power limit of gpu1 (0000:81:00.0) on n2 is 400 W (usually 700 W); it lowered the clocks in 100 % of "
            "the time the GPU worked.");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(found[0].severity, Severity::notice) << "a site may want it so";
  EXPECT_TRUE(found[0].remedy.user.empty());
  EXPECT_EQ(found[0].evidence.back().observed, 400);
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("nvidia-smi -i 0000:81:00.0 -pl 700"))
      << found[0].remedy.admin[0];

  GpuTraining idle;
  idle.fact("power_limit", "400").set("gpu.reason_power_cap", R::always(0));
  EXPECT_TRUE(idle.findings("gpu.power_cap").empty()) << "a limit that does not hold it costs nothing";
}

TEST(RuleGpuPowerCap, ComparesWithOthersOfTheKindWhereTheDefaultIsNotTold) {
  GpuTraining capped;
  capped.fact("power_limit_default", "").fact("power_limit", "500", 0);
  EXPECT_EQ(capped.findings("gpu.power_cap").size(), 1U);
}

}  // namespace
}  // namespace reveal::tests::gpu_power_cap_test
