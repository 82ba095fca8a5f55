// Sockets in network namespaces, as the child process of a probe opens them.
#include "core/job/namespace_sockets.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/basics/child_process.h"
#include "tests/unit/core/forked_job.h"

namespace reveal::tests::namespace_sockets_test {
namespace {

std::string inode_of(int pid) {
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/net").string();
}

std::string line_of(int pid, const std::string& inode) {
  return "1 /proc/" + std::to_string(pid) + "/net " + inode + '\n';
}

/// Places of the namespaces that could be entered.
std::vector<std::size_t> entered(NamespaceSockets& sockets) {
  std::vector<std::size_t> places;
  const std::string why = sockets.each([&places](const NamespaceSockets::Space& space) {
    places.push_back(space.place);
    return std::string();
  });
  EXPECT_EQ(why, "");
  return places;
}

TEST(NamespaceSockets, TakeTheirLinesOffARequestAndForgetNamespacesThatAreNotListed) {
  std::string request;
  append_namespaces(request, {{"", "/proc/net", "net:[1]"}, {"ns2", "", "net:[2]"}, {"ns3", "/proc/7/net", "net:[3]"}});
  EXPECT_EQ(request, "0 /proc/net net:[1]\n2 /proc/7/net net:[3]\n");
  NamespaceSockets sockets(NETLINK_ROUTE);
  EXPECT_EQ(sockets.follow("0 /proc/net net:[1]\npids 4711\n"), "pids 4711\n");
  EXPECT_EQ(entered(sockets), std::vector<std::size_t>{0});
  EXPECT_EQ(sockets.follow("pids\n"), "pids\n");
  EXPECT_EQ(entered(sockets), std::vector<std::size_t>());
  EXPECT_EQ(sockets.follow(""), "");
}

TEST(NamespaceSockets, DoNotEnterThatOfAnotherProcessWithThatNumber) {
  NamespaceSockets sockets(NETLINK_ROUTE);
  static_cast<void>(sockets.follow(line_of(::getpid(), "net:[7]")));
  EXPECT_EQ(entered(sockets), std::vector<std::size_t>());
  EXPECT_EQ(sockets.vanished(), 1);
  static_cast<void>(sockets.follow(line_of(1 << 22, "net:[7]")));
  EXPECT_EQ(entered(sockets), std::vector<std::size_t>());
  EXPECT_EQ(sockets.vanished(), 1) << "no process has this number";
}

TEST(NamespaceSockets, CloseAfterAnAnswerThatIsNotComplete) {
  NamespaceSockets sockets(NETLINK_ROUTE);
  static_cast<void>(sockets.follow("0 /proc/net net:[1]\n"));
  EXPECT_EQ(sockets.each([](const NamespaceSockets::Space&) { return std::string("the list changed"); }),
            "the list changed");
  EXPECT_EQ(entered(sockets), std::vector<std::size_t>{0}) << "it is opened again";
}

/// A process in namespaces of its own.
class Container : public ForkedJob {
 public:
  explicit Container(int namespaces) : ForkedJob([namespaces] { return ::unshare(namespaces) == 0; }) {}
};

/// Enters it in this process; true where that worked and this process is where it was.
bool enters(const Container& container) {
  const std::string here = inode_of(::getpid());
  NamespaceSockets sockets(NETLINK_ROUTE);
  static_cast<void>(sockets.follow(line_of(container.pid(), inode_of(container.pid()))));
  const bool entered_once = entered(sockets) == std::vector<std::size_t>{1};
  bool sees_loopback_only = false;
  static_cast<void>(sockets.each([&](const NamespaceSockets::Space& space) {
    ifreq request{};
    request.ifr_ifindex = 1;
    sees_loopback_only = ::ioctl(space.control.get(), SIOCGIFNAME, &request) == 0 &&
                         std::string(request.ifr_name) == "lo" &&
                         ::ioctl(space.control.get(), SIOCGIFFLAGS, &request) == 0 &&
                         (request.ifr_flags & IFF_UP) == 0;  // as in a new namespace
    return std::string();
  }));
  return entered_once && sees_loopback_only && inode_of(::getpid()) == here;
}

TEST(NamespaceSockets, EnterANamespaceAndComeBack) {
  if (::geteuid() != 0) GTEST_SKIP() << "entering a network namespace needs root";
  const Container container(CLONE_NEWNET);
  if (!container.is_ready()) GTEST_SKIP() << "no network namespace can be made here";
  ChildProcess child = fork_child([&] { return enters(container) ? 0 : 1; });  // not this process: it has threads
  EXPECT_EQ(child.wait(), 0);
}

TEST(NamespaceSockets, EnterThatOfAUsersOwnContainerWithoutPrivileges) {
  constexpr int kNoNamespaces = 2;
  ChildProcess child = fork_child([] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return kNoNamespaces;
    ::prctl(PR_SET_DUMPABLE, 1);  // as a process that was started by that user
    const Container container(CLONE_NEWUSER | CLONE_NEWNET);
    if (!container.is_ready()) return kNoNamespaces;
    return enters(container) ? 0 : 1;
  });
  const int status = child.wait();
  if (WEXITSTATUS(status) == kNoNamespaces) GTEST_SKIP() << "an ordinary user can make no namespaces here";
  EXPECT_EQ(status, 0);
}

TEST(NamespaceSockets, AskOnceWhereTheyAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "a network namespace of another user needs root";
  const Container container(CLONE_NEWNET);
  if (!container.is_ready()) GTEST_SKIP() << "no network namespace can be made here";
  const std::string inode = inode_of(container.pid());
  ChildProcess child = fork_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) return 1;
    NamespaceSockets sockets(NETLINK_ROUTE);
    for (int look = 0; look < 3; ++look) {
      static_cast<void>(sockets.follow(line_of(container.pid(), inode)));
      if (!entered(sockets).empty() || sockets.refused() != 1 || sockets.vanished() != 0) return 1;
    }
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace reveal::tests::namespace_sockets_test
