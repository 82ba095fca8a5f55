#include "core/kernel_text/mountinfo.h"

#include <gtest/gtest.h>

namespace reveal::tests::mountinfo_test {
namespace {

constexpr std::string_view kMounts =
    "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
    "31 22 0:40 / /scratch rw shared:9 - xfs /dev/sdb rw\n"
    "40 31 0:51 / /scratch rw - lustre 10.0.0.1@tcp:/l rw\n"
    "cut off\n"
    "41 31 0:52 / /scratch/job rw - tmpfs tmpfs rw\n";

TEST(MountInfo, GivesTheLongestMountPointAndTheLastOneOfSeveral) {
  EXPECT_EQ(mount_of(kMounts, "/home/ada").type, "ext4");
  EXPECT_EQ(mount_of(kMounts, "/scratch").type, "lustre");
  EXPECT_EQ(mount_of(kMounts, "/scratch/job/1").folder, "/scratch/job");
  EXPECT_EQ(mount_of(kMounts, "/scratch/jobs").folder, "/scratch");
  EXPECT_EQ(mount_of("", "/scratch").folder, "");
}

}  // namespace
}  // namespace reveal::tests::mountinfo_test
