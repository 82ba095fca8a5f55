#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::free_memory_test {
namespace {

TEST(FreeBlocks, AreCountedBySizeAndZone) {
  TestHost host;
  host.write("/proc/buddyinfo",
             "Node 0, zone      DMA      0      1      3 \nNode 1, zone   Normal  11630   2115     14 \n");
  ProbeBench bench(host, "free_blocks");
  bench.sample();
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order2", "node0/DMA"), 3);
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order0", "node1/Normal"), 11630);
  EXPECT_EQ(bench.family("memory/free_blocks").channels().size(), 6U);
  host.write("/proc/buddyinfo",
             "Node 0, zone      DMA      0      1      3 \nNode 1, zone   Normal   9999   2115     15 \n");
  bench.sample();
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order0", "node1/Normal"), 9999);
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order2", "node1/Normal"), 15);
}

TEST(Zones, HaveWatermarksAndNothingThatOthersSay) {
  TestHost host;
  const auto write = [&host](const std::string& free, const std::string& of_cpu) {
    host.write("/proc/zoneinfo",
               "Node 0, zone   Normal\n  per-node stats\n      nr_dirty     1160\n  pages free     " + free +
                   "\n        boost    0\n        min      10\n        low      13\n        managed  3840\n"
                   "        protection: (0, 0)\n      nr_free_pages 3840\n      nr_zone_write_pending 5\n"
                   "      numa_hit     7\n  pagesets\n    cpu: 0\n              count: " +
                   of_cpu +
                   "\n  vm stats threshold: 4\n  start_pfn:           1\nNode 0, zone  Movable\n  pages free     0\n"
                   "        min      32\n");
  };
  write("3840", "5");
  ProbeBench bench(host, "zones");
  for (const std::string free : {"3840", "3841", "99"}) {
    write(free, free);
    bench.sample();
    EXPECT_EQ(bench.value("memory/zones", "zone.free", "node0/Normal"), std::stoi(free));
    EXPECT_EQ(bench.value("memory/zones", "zone.min", "node0/Normal"), 10);
    EXPECT_EQ(bench.value("memory/zones", "zone.zone_write_pending", "node0/Normal"), 5);
    EXPECT_EQ(bench.value("memory/zones", "zone.min", "node0/Movable"), 32);
  }
  EXPECT_EQ(bench.family("memory/zones").channels().size(), 7U);
}

}  // namespace
}  // namespace reveal::tests::free_memory_test
