#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::lustre_test {
namespace {

TEST(Lustre, ReadsOldAndNewForms) {
  TestHost host;
  host.write("/proc/fs/lustre/llite/scratch-ffff8881f2a3c000/stats",
             "snapshot_time             1700000000.123456789 secs.nsecs\n"
             "read_bytes                12 samples [bytes] 1 4096 49152 201326592\n"
             "open                      5 samples [usecs] 3 90 210 9000\n"
             "close                     4 samples [regs]\n"
             "getattr                   x samples [regs]\n");
  ProbeBench bench(host, "lustre");
  bench.sample();
  EXPECT_EQ(bench.value("storage/lustre_bytes", "lustre.read_bytes", "scratch"), 49152);
  EXPECT_EQ(bench.value("storage/lustre_calls", "lustre.read_bytes_calls", "scratch"), 12);
  EXPECT_EQ(bench.value("storage/lustre_calls", "lustre.open", "scratch"), 5);
  EXPECT_EQ(bench.value("storage/lustre_time", "lustre.open_time", "scratch"), 210'000);
  EXPECT_EQ(bench.value("storage/lustre_calls", "lustre.close", "scratch"), 4);
  EXPECT_EQ(bench.family("storage/lustre_calls").channels().size(), 3U);
}

}  // namespace
}  // namespace reveal::tests::lustre_test
