#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::memory_test {
namespace {

TEST(Memory, ConvertsToBytesAndCountsHugePages) {
  TestHost host;
  host.write("/proc/meminfo",
             "MemTotal:       24684084 kB\nMemAvailable:   100 kB\nDirty:          7 kB\nActive(anon):   5 kB\n"
             "AnonHugePages:  2048 kB\nHugePages_Free:    3\nBrandNewThing:  9 kB\n");
  ProbeBench bench(host, "memory");
  bench.sample();
  EXPECT_EQ(bench.value("memory/meminfo", "mem.total"), 24684084LL * 1024);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.available"), 102400);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.dirty"), 7168);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.active_anon"), 5120);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.anon_huge_pages"), 2097152);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.brand_new_thing"), 9216);
  EXPECT_EQ(bench.value("memory/hugepages", "mem.hugepages_free"), 3);
}

TEST(Memory, LeavesMissingWhatIsGoneAndWhatIsNoNumber) {
  TestHost host;
  host.write("/proc/meminfo", "MemFree: 1 kB\nCached: 2 kB\nDirty: 3 kB\n");
  ProbeBench bench(host, "memory");
  host.write("/proc/meminfo", "Cached: 2x kB\nDirtyMore: 8 kB\nDirty: 4 kB\nMemFre");
  bench.sample();
  EXPECT_EQ(bench.value("memory/meminfo", "mem.free"), kMissing);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.cached"), kMissing);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.dirty"), 4096);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.dirty_more"), 8192);
}

}  // namespace
}  // namespace reveal::tests::memory_test
