#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::hugepages_test {
namespace {

TEST(HugePages, AreBytesOfEverySizeOnTheHostAndOnEachNode) {
  TestHost host;
  const std::string all = "/sys/kernel/mm/hugepages/hugepages-1048576kB";
  host.write(all + "/nr_hugepages", "16\n");
  host.write(all + "/free_hugepages", "15\n");
  host.write(all + "/resv_hugepages", "1\n");
  host.write(all + "/surplus_hugepages", "0\n");
  host.write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
  host.write("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "8\n");
  host.write("/sys/devices/system/node/node1/hugepages/hugepages-weird/nr_hugepages", "8\n");
  host.write("/sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 1 kB\n");
  ProbeBench bench(host, "hugepages");
  bench.sample();
  const std::string family = "memory/hugepages_by_size";
  EXPECT_EQ(bench.value(family, "hugepages.total", "1048576kB"), 16LL << 30);
  EXPECT_EQ(bench.value(family, "hugepages.free", "1048576kB"), 15LL << 30);
  EXPECT_EQ(bench.value(family, "hugepages.reserved", "1048576kB"), 1LL << 30);
  EXPECT_EQ(bench.value(family, "hugepages.total", "2048kB"), 6LL << 20);
  EXPECT_EQ(bench.value(family, "hugepages.total", "node1/1048576kB"), 8LL << 30);
  EXPECT_EQ(bench.family(family).channels().size(), 6U);
  host.write(all + "/nr_hugepages", "9223372036854775807\n");  // no such number of pages fits
  bench.sample();
  EXPECT_EQ(bench.value(family, "hugepages.total", "1048576kB"), kMissing);
}

}  // namespace
}  // namespace reveal::tests::hugepages_test
