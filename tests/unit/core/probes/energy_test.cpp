#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::energy_test {
namespace {

TEST(Energy, WrapsAtItsRangeAndIsNeverNegative) {
  TestHost host;
  const std::string package = "/sys/class/powercap/intel-rapl:0";
  host.write(package + "/name", "package-0\n");
  host.write(package + "/max_energy_range_uj", "262143328850\n");
  host.write(package + "/energy_uj", "262143328000\n");
  host.write("/sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  host.write("/sys/class/powercap/intel-rapl:0:1/energy_uj", "5\n");
  host.write("/sys/class/powercap/intel-rapl/enabled", "1\n");
  ProbeBench bench(host, "energy");
  EXPECT_EQ(bench.value("cpu/energy", "energy.package", "0"), 262143328000);
  host.write(package + "/energy_uj", "150\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/energy", "energy.package", "0"), 262143328850 + 150);
  EXPECT_EQ(bench.value("cpu/energy", "energy.dram", "0:1"), 5);
  EXPECT_EQ(bench.family("cpu/energy").spec().unit, Unit::microjoules);
  host.write(package + "/energy_uj", "");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/energy", "energy.package", "0"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::energy_test
