#include <gtest/gtest.h>

#include "gpu_training.h"

namespace reveal::tests::gpu_clocks_locked_low_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuClocks, NamesASettingBelowTheDefault) {
  GpuTraining locked(1);
  locked.fact("sm_clock_set", "1095").fact("sm_clock_default", "1410");
  locked.set("gpu.sm_clock", GpuTraining::while_it_works(1095e6, 345e6)).set("gpu.reason_power_cap", R::always(0));
  const auto found = locked.findings("gpu.clocks_locked_low");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "gpu0 (0000:80:00.0) on n2 worked at 1,095 MHz, although 1,410 MHz are possible: the application clock is "
            "set below its default.");
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
}  // namespace reveal::tests::gpu_clocks_locked_low_test
