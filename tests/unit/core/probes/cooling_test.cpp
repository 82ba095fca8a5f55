#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::cooling_test {
namespace {

void device(const TestHost& host, int number, const std::string& type, const std::string& state) {
  const std::string folder = "/sys/class/thermal/cooling_device" + std::to_string(number);
  host.write(folder + "/type", type + "\n");
  host.write(folder + "/cur_state", state + "\n");
}

TEST(Cooling, CountsTheDevicesThatSlowCpusDown) {
  TestHost host;
  device(host, 0, "Processor", "0");
  device(host, 1, "Processor", "0");
  device(host, 2, "Fan", "7");
  device(host, 3, "intel_powerclamp", "-1");
  host.write("/sys/class/thermal/thermal_zone0/type", "Processor\n");
  ProbeBench bench(host, "cooling");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/cooling", "cooling.active"), 0);
  EXPECT_EQ(bench.value("cpu/cooling", "cooling.strongest"), 0);
  device(host, 1, "Processor", "3");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/cooling", "cooling.active"), 1);
  EXPECT_EQ(bench.value("cpu/cooling", "cooling.strongest"), 3);
}

TEST(Cooling, IsNotMeasuredWhereTheTextIsNoNumber) {
  TestHost host;
  device(host, 0, "thermal-cpufreq-0", "");
  ProbeBench bench(host, "cooling");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/cooling", "cooling.active"), kMissing);
  EXPECT_EQ(bench.value("cpu/cooling", "cooling.strongest"), kMissing);
  host.remove("/sys/class/thermal");
  EXPECT_EQ(ProbeBench(host, "cooling").coverage().reason, "this kernel has no cooling devices of cpus");
}

}  // namespace
}  // namespace reveal::tests::cooling_test
