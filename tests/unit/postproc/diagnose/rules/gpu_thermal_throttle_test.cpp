#include <gtest/gtest.h>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_thermal_throttle_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuThermal, NamesTheHotGpuAndWhatItLost) {
  GpuTraining hot;
  hot.node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
  hot.set("gpu.reason_sw_thermal", R::event(0, 1), 1).set("gpu.sm_clock", R::event(1600e6, 1200e6), 1);
  const auto found = hot.findings("gpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "Heat lowered the clocks of gpu1 (0000:81:00.0) on n2 for 12 s of the 4 min 23 s it worked (4.56 %).");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(found[0].severity, Severity::notice) << "12 of 256 s";
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 12 * 0.25, 0.2) << "15 s, 3 of them without work";
  EXPECT_TRUE(found[0].impact.at_most) << "work that waits for memory does not follow the clock";
  EXPECT_EQ(found[0].remedy.admin.at(0),
            "nvidia-smi -i 0000:81:00.0 -q -d TEMPERATURE,PERFORMANCE   # under load: limits and reasons");
  EXPECT_EQ(found[0].remedy.advice, std::vector<std::string>{kShowAdministrators});
}

TEST(RuleGpuThermal, IsAWarningWhereItLasts) {
  GpuTraining hot;
  hot.set("gpu.reason_hw_thermal", R::always(1), 0);
  EXPECT_EQ(hot.findings("gpu.thermal_throttle").at(0).severity, Severity::warning);
}

TEST(RuleGpuThermal, TakesNoIdleGpuAndNoMomentForHeat) {
  GpuTraining idle;
  idle.set("gpu.reason_hw_thermal", GpuTraining::while_it_works(0, 1));
  EXPECT_TRUE(idle.findings("gpu.thermal_throttle").empty());
  GpuTraining once;
  once.set("gpu.reason_hw_thermal", [](double second) { return second >= 100 && second < 101 ? 1.0 : 0.0; });
  EXPECT_TRUE(once.findings("gpu.thermal_throttle").empty());
}

TEST(RuleGpuThermal, SaysWhatWasNotMeasured) {
  R none;
  EXPECT_THROW(static_cast<void>(none.findings("gpu.thermal_throttle")), Unavailable);
  none.gauge("gpu.utilization", "gpu0", R::always(97));
  EXPECT_THROW(static_cast<void>(none.findings("gpu.thermal_throttle")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::gpu_thermal_throttle_test
