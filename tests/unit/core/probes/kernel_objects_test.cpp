#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::kernel_objects_test {
namespace {

TEST(KernelObjects, AreFilesNamesAndTasks) {
  TestHost host;
  host.write("/proc/sys/fs/file-nr", "435\t0\t2464775\n");
  host.write("/proc/sys/fs/inode-nr", "272067\t440\n");
  host.write("/proc/sys/fs/dentry-state", "548026\t542405\t45\t0\t261856\t0\n");
  for (const int tasks : {102, 103, 1040}) {
    host.write("/proc/loadavg",
               "0.83 1.38 1.33 " + std::to_string(tasks % 7) + "/" + std::to_string(tasks) + " 23929\n");
    ProbeBench bench(host, "kernel_objects");
    bench.sample();
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.tasks"), tasks);
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.files"), 435);
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.inodes_free"), 440);
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.dentries_unused"), 542405);
  }
}

}  // namespace
}  // namespace reveal::tests::kernel_objects_test
