#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::file_system_test {
namespace {

constexpr char kMounts[] = "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:5 / /tmp rw - tmpfs tmp rw\n";

TEST(FileSystem, SaysHowFullTheOneBelowTmpWasWhenItWasRecorded) {
  TestHost host;
  const std::string mounts = kMounts;
  host.write("/ticks.rec", "reveal recording 1\n+ 0 F/proc/self/mountinfo\n$ 0 " + std::to_string(mounts.size()) +
                               "\n" + mounts + "\n+ 1 @@statvfs/local\n$ 1 26\n/tmp 4096000 3000 2000 5 4\n= 1 1\n");
  ProbeBench bench(host, "file_system");
  EXPECT_EQ(bench.answered("storage/file_systems", "fs.total", "/tmp"), 4096000);
  EXPECT_EQ(bench.value("storage/file_systems", "fs.free", "/tmp"), 3000);
  EXPECT_EQ(bench.value("storage/file_system_files", "fs.files_free", "/tmp"), 4);
}

TEST(FileSystem, SaysNothingOfACopiedTreeBecauseItsDiskIsOurs) {
  TestHost host;
  host.write("/tmp/a_file", "");
  host.write("/proc/self/mountinfo", kMounts);
  const ProbeBench bench(host, "file_system");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

}  // namespace
}  // namespace reveal::tests::file_system_test
