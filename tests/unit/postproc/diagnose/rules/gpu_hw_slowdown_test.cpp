#include <gtest/gtest.h>

#include <cmath>

#include "gpu_training.h"

namespace reveal::tests::gpu_hw_slowdown_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuSlowdown, TellsThePowerBrakeFromHeatAndFromAChangeOfState) {
  GpuTraining brake;
  brake.node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
  brake.set("gpu.reason_hw_slowdown", R::event(0, 1), 0).set("gpu.reason_power_brake", R::event(0, 1), 0);
  const auto found = brake.findings("gpu.hw_slowdown");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The hardware of gpu0 (0000:80:00.0) on n2 slowed itself down for 12 s of the 4 min 23 s it worked, "
            "because an external signal activated its power brake.");
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].remedy.advice, std::vector<std::string>{kShowAdministrators});

  GpuTraining heat;
  heat.set("gpu.reason_hw_slowdown", R::event(0, 1)).set("gpu.reason_hw_thermal", R::event(0, 1));
  EXPECT_TRUE(heat.findings("gpu.hw_slowdown").empty());
  EXPECT_EQ(heat.findings("gpu.thermal_throttle").size(), 1U);

  GpuTraining moments;
  moments.set("gpu.reason_hw_slowdown", [](double second) { return std::fmod(second, 30) < 2 ? 1.0 : 0.0; });
  EXPECT_TRUE(moments.findings("gpu.hw_slowdown").empty()) << "each change of the performance state sets the bit";
}

TEST(RuleGpuSlowdown, SeesASlowdownOfManyGpusThatAreNotAskedEachSecond) {
  GpuTraining seldom;
  const auto each_second_one = [](const R::Course& course) {
    return [=](double second) { return std::fmod(std::floor(second), 2) < 1 ? course(second) : std::nan(""); };
  };
  seldom.set("gpu.reason_hw_slowdown", each_second_one(R::event(0, 1)));
  seldom.set("gpu.reason_power_brake", each_second_one(R::always(0)));
  EXPECT_EQ(seldom.findings("gpu.hw_slowdown").size(), 1U);
}

}  // namespace
}  // namespace reveal::tests::gpu_hw_slowdown_test
