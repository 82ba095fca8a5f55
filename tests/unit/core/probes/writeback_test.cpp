#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::writeback_test {
namespace {

TEST(Writeback, IsBytesOfDevicesThatWereEverWrittenTo) {
  TestHost host;
  host.write(
      "/sys/kernel/debug/bdi/254:0/stats",
      "BdiWriteback:               12 kB\nBdiReclaimable:           4096 kB\nBdiDirtyThresh:        2000000 kB\n"
      "DirtyThresh:           4000000 kB\nBackgroundThresh:      2000000 kB\nBdiDirtied:            9000000 kB\n"
      "BdiWritten:            8900000 kB\nBdiWriteBandwidth:       102400 kBps\nb_dirty:                     3\n");
  host.write("/sys/kernel/debug/bdi/7:0/stats", "BdiDirtied:            1 kB\n");
  host.write("/sys/kernel/debug/bdi/0:50/stats", "BdiWriteback:              0 kB\nBdiDirtied:            0 kB\n");
  ProbeBench bench(host, "writeback");
  bench.sample();
  EXPECT_EQ(bench.value("storage/writeback", "writeback.under_way", "254:0"), 12 * 1024);
  EXPECT_EQ(bench.value("storage/writeback", "writeback.waiting", "254:0"), 4096 * 1024);
  EXPECT_EQ(bench.value("storage/writeback", "writeback.bandwidth", "254:0"), 102400 * 1024);
  EXPECT_EQ(bench.value("storage/writeback_bytes", "writeback.written", "254:0"), 8'900'000LL * 1024);
  EXPECT_EQ(bench.family("storage/writeback").channels().size(), 4U);
}

}  // namespace
}  // namespace reveal::tests::writeback_test
