#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::temperature_test {
namespace {

TEST(Temperature, ReadsTheCpusOwnSensorsAndLeavesSlowOnesAlone) {
  TestHost host;
  host.write("/sys/class/hwmon/hwmon0/name", "coretemp\n");
  host.write("/sys/class/hwmon/hwmon0/temp1_input", "61000\n");
  host.write("/sys/class/hwmon/hwmon0/temp1_label", "Package id 0\n");
  host.write("/sys/class/hwmon/hwmon0/temp2_input", "-5400\n");
  host.write("/sys/class/hwmon/hwmon0/temp2_label", "Core 0\n");
  host.write("/sys/class/hwmon/hwmon1/name", "drivetemp\n");
  host.write("/sys/class/hwmon/hwmon1/temp1_input", "30000\n");
  ProbeBench bench(host, "temperature");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/package_temperature", "temperature.package", "coretemp0.Package_id_0"), 61);
  EXPECT_EQ(bench.value("cpu/core_temperature", "temperature.core", "core0"), -5);
  EXPECT_EQ(bench.family("cpu/package_temperature").channels().size(), 1U);
  host.remove("/sys/class/hwmon/hwmon0");
  const ProbeBench left(host, "temperature");
  EXPECT_NE(left.coverage().reason.find("drivetemp"), std::string::npos) << left.coverage().reason;
}

TEST(Temperature, IsThatOfEachDieOnAmdWithTheLimitWhereTheDriverTellsIt) {
  TestHost host;
  const std::string chip = "/sys/class/hwmon/hwmon3/";
  host.write(chip + "name", "k10temp\n");
  host.write(chip + "temp1_label", "Tctl\n");
  host.write(chip + "temp1_input", "94750\n");
  host.write(chip + "temp1_crit", "100000\n");
  host.write(chip + "temp3_label", "Tccd1\n");
  host.write(chip + "temp3_input", "91250\n");
  ProbeBench bench(host, "temperature");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/package_temperature", "temperature.package", "k10temp0.Tctl"), 95);
  EXPECT_EQ(bench.value("cpu/package_temperature", "temperature.package", "k10temp0.Tccd1"), 91);
  EXPECT_EQ(bench.sampler().facts(), (Snapshot{{"temperature_limit.k10temp0.Tctl", "100"}}));
}

}  // namespace
}  // namespace reveal::tests::temperature_test
