#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::pressure_test {
namespace {

TEST(Pressure, TakesTheTotalsInNanoseconds) {
  TestHost host;
  host.write("/proc/pressure/io", "some avg10=2.18 avg60=0.75 avg300=0.27 total=6262143\nfull avg10=0.00 total=8\n");
  ProbeBench bench(host, "pressure");
  bench.sample();
  EXPECT_EQ(bench.value("pressure/node", "pressure.io_some"), 6'262'143'000);
  EXPECT_EQ(bench.value("pressure/node", "pressure.io_full"), 8'000);
  EXPECT_EQ(bench.value("pressure/node", "pressure.cpu_some"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::pressure_test
