#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::disk_test {
namespace {

TEST(Disk, SkipsMemoryDisksPartitionsAndIdleOnes) {
  TestHost host;
  host.write("/sys/class/block/vda1/partition", "1\n");
  host.write("/proc/diskstats",
             "   7 0 loop0 9 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 10 2 16 30 5 1 8 7 3 40 50 0 0 0 0 6 9\n"
             " 254 1 vda1 10 2 16 30 5 1 8 7 3 40 50\n 253 0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
  ProbeBench bench(host, "disk");
  bench.sample();
  EXPECT_EQ(bench.family("storage/disk_queue").channels().size(), 1U);
  EXPECT_EQ(bench.value("storage/disk", "disk.reads", "vda"), 10);
  EXPECT_EQ(bench.value("storage/disk_bytes", "disk.read_bytes", "vda"), 16 * 512);
  EXPECT_EQ(bench.value("storage/disk_time", "disk.read_time", "vda"), 30'000'000);
  EXPECT_EQ(bench.value("storage/disk_queue", "disk.inflight", "vda"), 3);
  EXPECT_EQ(bench.value("storage/disk", "disk.flushes", "vda"), 6);
  EXPECT_EQ(bench.value("storage/disk_time", "disk.flush_time", "vda"), 9'000'000);
  host.write("/proc/diskstats", " 253 0 zram0 1 0 8 0 0 0 0 0 0 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("storage/disk", "disk.reads", "zram0"), 1);
  EXPECT_EQ(bench.value("storage/disk", "disk.flushes", "zram0"), kMissing);  // an old kernel's short line
  EXPECT_EQ(bench.value("storage/disk", "disk.reads", "vda"), kMissing);
}

TEST(Disk, TellsOfEachWhetherItTurns) {
  TestHost host;
  host.write("/sys/class/block/sda/queue/rotational", "1\n");
  host.write("/sys/class/block/nvme0n1/queue/rotational", "0\n");
  host.write("/proc/diskstats",
             "   8 0 sda 10 2 16 30 5 1 8 7 3 40 50\n 259 0 nvme0n1 10 2 16 30 5 1 8 7 3 40 50\n"
             " 253 0 dm-0 10 2 16 30 5 1 8 7 3 40 50\n");
  ProbeBench bench(host, "disk");
  bench.sample();
  EXPECT_EQ(bench.sampler().facts(), (Snapshot{{"disk.nvme0n1.rotational", "0"}, {"disk.sda.rotational", "1"}}));
}

}  // namespace
}  // namespace reveal::tests::disk_test
