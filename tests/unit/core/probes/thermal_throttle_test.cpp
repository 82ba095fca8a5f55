#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::thermal_throttle_test {
namespace {

TEST(ThermalThrottle, CountsACoreOnceAndAPackageOnce) {
  TestHost host;
  for (int cpu = 0; cpu < 2; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    host.write(folder + "/thermal_throttle/core_throttle_count", "4\n");
    host.write(folder + "/thermal_throttle/core_throttle_total_time_ms", "250\n");
    host.write(folder + "/thermal_throttle/package_throttle_count", "6\n");
    host.write(folder + "/topology/thread_siblings_list", "0-1\n");
    host.write(folder + "/topology/physical_package_id", "0\n");
  }
  ProbeBench bench(host, "thermal_throttle");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/throttle_counts", "throttle.core_count", "cpu0"), 4);
  EXPECT_EQ(bench.value("cpu/throttle_counts", "throttle.core_count", "cpu1"), kMissing);
  EXPECT_EQ(bench.value("cpu/throttle_times", "throttle.core_time", "cpu0"), 250'000'000);
  EXPECT_EQ(bench.value("cpu/package_throttle_counts", "throttle.package_count", "package0"), 6);
  EXPECT_EQ(bench.value("cpu/package_throttle_times", "throttle.package_time", "package0"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::thermal_throttle_test
