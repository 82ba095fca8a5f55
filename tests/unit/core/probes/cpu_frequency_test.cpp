#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::cpu_frequency_test {
namespace {

TEST(Frequency, IsInHertz) {
  TestHost host;
  host.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2600000\n");
  ProbeBench bench(host, "cpu_frequency");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/frequency", "cpu.frequency", "cpu1"), 2'600'000'000);
}

TEST(FrequencyLimits, AreFollowed) {
  TestHost host;
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3500000\n");
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "800000\n");
  ProbeBench bench(host, "cpu_frequency_limits");
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1200000\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/frequency_limits", "cpu.frequency_ceiling", "cpu0"), 1'200'000'000);
  EXPECT_EQ(bench.value("cpu/frequency_limits", "cpu.frequency_floor", "cpu0"), 800'000'000);
}

}  // namespace
}  // namespace reveal::tests::cpu_frequency_test
