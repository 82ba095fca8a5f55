// Counters of calls on kernels and in namespaces where they cannot do everything.
#include "core/stack/call_counters.h"

#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::call_counters_test {
namespace {

// It counts the calls of a function of its own, by another thread, before it is there at all.
TEST(Stack, CountsByPerfEventsOnOlderKernels) {
  try {
    const CallCounters counters(4, CallCounters::Way::single);
    EXPECT_EQ(counters.way(), "perf uprobe");
    EXPECT_GT(counters.bias_ns(), 0);
    EXPECT_GT(counters.cost_ns({.clock = true}), 0);
    EXPECT_GT(counters.cost_ns({.communicator = 6}), counters.cost_ns(CallShape{}));
    EXPECT_EQ(counters.calls(0), 0U);
    EXPECT_TRUE(counters.pending().empty());
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
}

/// The answer of the kernel to a command about one entry of a map.
long map_command(int command, int map, const PendingCall& key, PendingBegin& value) {
  bpf_attr attributes{};
  attributes.map_fd = static_cast<std::uint32_t>(map);
  attributes.key = reinterpret_cast<std::uintptr_t>(&key);
  attributes.value = reinterpret_cast<std::uintptr_t>(&value);
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

TEST(Stack, DropsTheCallsOfThreadsThatEndedInsideThem) {
  struct stat status {};
  constexpr ino_t kFirstNamespace = 0xEFFFFFFC;
  if (::stat("/proc/self/ns/pid", &status) != 0 || status.st_ino != kFirstNamespace) {
    GTEST_SKIP() << "the kernel numbers threads otherwise than this namespace";
  }
  try {
    const CallCounters counters(4, CallCounters::Way::single);
    pid_t ended = 0;
    std::thread([&ended] { ended = ::gettid(); }).join();
    const std::string task = "/proc/self/task/" + std::to_string(ended);
    while (::access(task.c_str(), F_OK) == 0) std::this_thread::yield();
    const auto process = static_cast<std::uint64_t>(::getpid()) << 32U;
    const PendingCall of_ended{.pid_tgid = process | static_cast<std::uint64_t>(ended), .index = 0};
    const PendingCall of_living{.pid_tgid = process | static_cast<std::uint64_t>(::gettid()), .index = 1};
    PendingBegin begin{.begin_ns = 5};
    for (const PendingCall& call : {of_ended, of_living}) {
      ASSERT_EQ(map_command(BPF_MAP_UPDATE_ELEM, counters.maps().pending, call, begin), 0);
    }
    EXPECT_EQ(counters.pending(), (std::map<std::size_t, std::int64_t>{{1, 5}}));
    EXPECT_NE(map_command(BPF_MAP_LOOKUP_ELEM, counters.maps().pending, of_ended, begin), 0);
    EXPECT_EQ(map_command(BPF_MAP_LOOKUP_ELEM, counters.maps().pending, of_living, begin), 0);
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
}

TEST(Stack, IsAbsentWhereTheClockIsNotTheKernels) {
  enum Told : int { refused = 0, counted, no_namespace, no_bpf };
  const pid_t outside = ::fork();
  if (outside == 0) {
    std::ofstream offsets;
    if (::unshare(CLONE_NEWTIME) != 0) ::_exit(no_namespace);
    offsets.open("/proc/self/timens_offsets");
    if (!(offsets << "monotonic 1000 0" << std::flush)) ::_exit(no_namespace);
    const pid_t inside = ::fork();  // the first one in the namespace
    if (inside == 0) {
      try {
        const CallCounters counters(stack_functions().size());
        ::_exit(counted);
      } catch (const Unavailable& why) {
        ::_exit(std::string(why.what()).find("time namespace") == std::string::npos ? no_bpf : refused);
      }
    }
    int status = 0;
    ::waitpid(inside, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(outside, &status, 0), outside);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == no_namespace) GTEST_SKIP() << "needs root for a time namespace";
  if (WEXITSTATUS(status) == no_bpf) GTEST_SKIP() << "needs the privilege for BPF";
  EXPECT_EQ(WEXITSTATUS(status), refused);
}

}  // namespace
}  // namespace reveal::tests::call_counters_test
