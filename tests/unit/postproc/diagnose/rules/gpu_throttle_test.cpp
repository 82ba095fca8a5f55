#include <gtest/gtest.h>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_throttle_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuHealthy, TrainingHasNoFindingOfAnyRule) {
  for (const RuleSpec* rule : rules()) {
    if (!rule->id.starts_with("gpu.") || rule->id == "gpu.nvlink_down") continue;
    GpuTraining healthy;
    healthy.node.counter("net.tx_bytes", "eth0", GpuTraining::while_it_works(100e6, 20e6), "node");
    healthy.node.gauge("gpu.memory_utilization", "gpu0", GpuTraining::while_it_works(45, 0));
    const auto found = healthy.findings(rule->id);
    EXPECT_TRUE(found.empty()) << rule->id << ": " << (found.empty() ? "" : found[0].sentence);
  }
}

TEST(RuleGpuThermal, NamesTheHotGpuAndWhatItLost) {
  GpuTraining hot;
  hot.set("gpu.reason_sw_thermal", R::event(0, 1), 1).set("gpu.sm_clock", R::event(1600e6, 1200e6), 1);
  const auto found = hot.findings("gpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(found[0].severity, Severity::notice) << "12 of 256 s";
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 12 * 0.25, 0.2) << "15 s, 3 of them without work";
  EXPECT_EQ(found[0].remedy.admin.at(0),
            "nvidia-smi -i 0000:81:00.0 -q -d TEMPERATURE,PERFORMANCE   # under load: limits and reasons");
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

TEST(RuleGpuSlowdown, TellsThePowerBrakeFromHeatAndFromAChangeOfState) {
  GpuTraining brake;
  brake.set("gpu.reason_hw_slowdown", R::event(0, 1), 0).set("gpu.reason_power_brake", R::event(0, 1), 0);
  const auto found = brake.findings("gpu.hw_slowdown");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("power brake"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].severity, Severity::warning);

  GpuTraining heat;
  heat.set("gpu.reason_hw_slowdown", R::event(0, 1)).set("gpu.reason_hw_thermal", R::event(0, 1));
  EXPECT_TRUE(heat.findings("gpu.hw_slowdown").empty());
  EXPECT_EQ(heat.findings("gpu.thermal_throttle").size(), 1U);

  GpuTraining moments;
  moments.set("gpu.reason_hw_slowdown", [](double second) { return std::fmod(second, 30) < 2 ? 1.0 : 0.0; });
  EXPECT_TRUE(moments.findings("gpu.hw_slowdown").empty()) << "each change of the performance state sets the bit";
}

TEST(RuleGpuPowerCap, IsAFindingOnlyBelowTheUsualLimit) {
  GpuTraining capped;
  capped.fact("power_limit", "400", 1);
  const auto found = capped.findings("gpu.power_cap");
  ASSERT_EQ(found.size(), 1U);
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

TEST(RuleGpuClocks, NamesASettingBelowTheDefault) {
  GpuTraining locked(1);
  locked.fact("sm_clock_set", "1095").fact("sm_clock_default", "1410");
  locked.set("gpu.sm_clock", GpuTraining::while_it_works(1095e6, 345e6)).set("gpu.reason_power_cap", R::always(0));
  const auto found = locked.findings("gpu.clocks_locked_low");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).observed, 1095e6);
  EXPECT_EQ(found[0].evidence.at(0).expected, 1410e6);
}

TEST(RuleGpuClocks, NamesAClockThatASettingHolds) {
  GpuTraining locked(1);
  locked.set("gpu.sm_clock", GpuTraining::while_it_works(900e6, 345e6)).set("gpu.reason_power_cap", R::always(0));
  locked.set("gpu.reason_application_clocks", GpuTraining::while_it_works(1, 0));
  EXPECT_EQ(locked.findings("gpu.clocks_locked_low").size(), 1U);

  GpuTraining level(1);
  level.set("gpu.sm_clock", GpuTraining::while_it_works(900e6, 345e6)).set("gpu.reason_power_cap", R::always(0));
  EXPECT_TRUE(level.findings("gpu.clocks_locked_low").empty()) << "many cards never reach their highest clock";

  GpuTraining held(1);
  held.set("gpu.reason_application_clocks", GpuTraining::while_it_works(1, 0));
  held.set("gpu.sm_clock", GpuTraining::while_it_works(900e6, 345e6));
  EXPECT_TRUE(held.findings("gpu.clocks_locked_low").empty()) << "the power limit holds it";

  GpuTraining usual(1);
  usual.set("gpu.sm_clock", GpuTraining::while_it_works(1410e6, 345e6)).set("gpu.reason_power_cap", R::always(0));
  usual.set("gpu.reason_application_clocks", GpuTraining::while_it_works(1, 0));
  usual.fact("sm_clock_set", "1410").fact("sm_clock_default", "1410");
  EXPECT_TRUE(usual.findings("gpu.clocks_locked_low").empty()) << "its makers set this one below the highest";
}

}  // namespace
}  // namespace reveal::tests::gpu_throttle_test
