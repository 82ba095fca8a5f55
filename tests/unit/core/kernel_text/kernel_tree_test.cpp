// A copied tree may come from another user: its links lead to places in the tree.
#include "core/kernel_text/kernel_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/core/test_host.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::kernel_tree_test {
namespace {

namespace fs = std::filesystem;

bool kernel_keeps_inside() {
  open_how how{};
  how.resolve = RESOLVE_IN_ROOT;
  const Descriptor opened(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how)));
  return static_cast<bool>(opened);
}

TEST(KernelTree, FollowsLinksInsideACopiedTree) {
  if (!kernel_keeps_inside()) GTEST_SKIP() << "openat2 is not there or not allowed";
  const TestHost host;
  host.write("/sys/devices/pci0/net/eth0/mtu", "9000\n");
  fs::create_directories(host.root() / "sys/class/net");
  fs::create_directory_symlink("../../devices/pci0/net/eth0", host.root() / "sys/class/net/eth0");
  fs::create_directory_symlink("/sys/devices/pci0/net/eth0", host.root() / "sys/class/net/eth1");
  KernelTree tree(host.root());
  EXPECT_EQ(tree.word("/sys/class/net/eth0/mtu"), "9000");
  EXPECT_EQ(tree.word("/sys/class/net/eth1/mtu"), "9000") << "an absolute link begins at the root of the tree";
  EXPECT_EQ(tree.list("/sys/class/net"), (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(tree.list("/sys/class/net/eth1"), std::vector<std::string>{"mtu"});
  EXPECT_EQ(tree.link("/sys/class/net/eth0"), "../../devices/pci0/net/eth0");
}

TEST(KernelTree, ReadsNothingOutsideOfACopiedTree) {
  if (!kernel_keeps_inside()) GTEST_SKIP() << "openat2 is not there or not allowed";
  const TemporaryDirectory outside;
  std::ofstream(outside.path() / "secret") << "secret\n";
  const TestHost host;
  fs::create_symlink(outside.path() / "secret", host.root() / "proc/file");
  fs::create_directory_symlink(outside.path(), host.root() / "proc/directory");
  const std::string climb = "../../../../../../../../.." + outside.path().string();
  fs::create_directory_symlink(climb, host.root() / "proc/climb");
  KernelTree tree(host.root());
  for (const char* path : {"/proc/file", "/proc/directory/secret", "/proc/climb/secret"}) {
    EXPECT_EQ(tree.text(path), std::nullopt) << path;
    EXPECT_EQ(tree.unrecorded_text(path), "") << path;
  }
  EXPECT_TRUE(tree.list("/proc/directory").empty());
  EXPECT_TRUE(tree.list("/proc/climb").empty());
  EXPECT_EQ(tree.link("/proc/directory/secret"), std::nullopt);
}

}  // namespace
}  // namespace reveal::tests::kernel_tree_test
