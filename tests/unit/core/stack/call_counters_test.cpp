// Counters of calls on kernels and in namespaces where they cannot do everything.
#include "core/stack/call_counters.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/stack/elf_symbols.h"
#include "core/stack/probed_process.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::call_counters_test {
namespace {

/// Null, and the reason, where this kernel does not let us.
std::unique_ptr<CallCounters> counters_by(CallCounters::Way way, std::string& why_not) {
  try {
    return std::make_unique<CallCounters>(stack_functions().size(), way);
  } catch (const Unavailable& why) {
    why_not = why.what();
    return nullptr;
  }
}

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

TEST(Stack, CountsFunctionsThatAreAttachedTogetherByBothWays) {
  using Reduce = int (*)(const void*, void*, std::size_t, int, int, void*, void*);
  constexpr int kFloat = 7;
  const std::string path = std::string(STACK_DOUBLES) + "/libnccl.so.2";
  const Descriptor library(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // Closed again: processes that later tests fork would have it, too, with a page that was written to.
  const std::unique_ptr<void, int (*)(void*)> opened(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL), &::dlclose);
  ASSERT_NE(opened, nullptr);
  const auto reduce = reinterpret_cast<Reduce>(::dlsym(opened.get(), "ncclAllReduce"));
  ASSERT_NE(reduce, nullptr);
  const std::array<std::string_view, 2> wanted = {"ncclAllReduce", "ncclReduce"};
  const FoundFunctions found = find_functions(reader_of(library.get()), wanted);
  const std::array<CallCounters::Point, 2> points = {
      {{.offset = found.offsets.at(0), .index = 0}, {.offset = found.offsets.at(1), .index = 1}}};
  for (const CallCounters::Way way : {CallCounters::Way::multi, CallCounters::Way::single}) {
    std::string why_not;
    const std::unique_ptr<CallCounters> counters = counters_by(way, why_not);
    if (!counters) GTEST_SKIP() << why_not;
    for (const bool timed : {false, true}) {
      if (timed && !may_be_timed(::getpid())) continue;
      const CallShape shape{.timed = timed};
      const std::array<CallCounters::Function, 2> functions = {{{.shape = shape, .points = std::span(points).first(1)},
                                                                {.shape = shape, .points = std::span(points).last(1)}}};
      std::vector<CallCounters::Attached> attached = counters->attach(library.get(), ::getpid(), functions);
      ASSERT_EQ(attached.size(), 2U);
      CallLinks links;
      for (CallCounters::Attached& each : attached) {
        EXPECT_EQ(each.error, 0);
        links.add(std::move(each.links));
      }
      EXPECT_LT(attached[0].since_ns, attached[1].since_ns);
      for (int i = 0; i < 5; ++i) static_cast<void>(reduce(nullptr, nullptr, 1, kFloat, 0, nullptr, nullptr));
      EXPECT_FALSE(links.empty());
      links.detach();
      EXPECT_TRUE(links.empty());
      static_cast<void>(reduce(nullptr, nullptr, 1, kFloat, 0, nullptr, nullptr));
      const CallCounts counts = counters->take(0);
      EXPECT_EQ(counts.calls, 5U) << counters->way();
      EXPECT_EQ(counts.returned, timed ? 5U : 0U) << counters->way();
      EXPECT_EQ(counters->calls(1), 0U);
      counters->reset(0, stack_functions().size());
    }
  }
}

TEST(Stack, PreparesTheKernelByAFunctionThatNobodyCalls) {
  for (const CallCounters::Way way : {CallCounters::Way::multi, CallCounters::Way::single}) {
    std::string why_not;
    const std::unique_ptr<CallCounters> counters = counters_by(way, why_not);
    if (!counters) GTEST_SKIP() << why_not;
    for (const bool timed : {false, true}) {
      CallCounters::Attached prepared = counters->prepare(timed);
      EXPECT_EQ(prepared.error, 0) << counters->way();
      EXPECT_FALSE(prepared.links.empty());
      prepared.links.detach();
      EXPECT_EQ(counters->calls(0), 0U);
    }
  }
}

/// The answer of the kernel to a command about one entry of a map.
template <typename Key, typename Value>
long map_command(int command, int map, const Key& key, Value& value) {
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

// Collectives of other functions go on, and each process has a number of its own.
TEST(Stack, ForgetsNoMoreCollectivesThanAreUnderWay) {
  const auto functions = stack_functions();
  const auto work = static_cast<std::uint64_t>(
      std::find_if(functions.begin(), functions.end(), [](const auto& each) { return each.name == "c10d.work"; }) -
      functions.begin());
  try {
    CallCounters counters(2 * functions.size(), CallCounters::Way::single);
    StepRing ring{.collectives = 3};
    for (const std::uint32_t process : {0U, 1U}) {
      ASSERT_EQ(map_command(BPF_MAP_UPDATE_ELEM, counters.maps().steps, process, ring), 0);
    }
    PendingBegin begin{.begin_ns = 5};
    for (const std::uint64_t thread : {1U, 2U}) {
      const PendingCall call{.pid_tgid = thread, .index = work};
      ASSERT_EQ(map_command(BPF_MAP_UPDATE_ELEM, counters.maps().pending, call, begin), 0);
    }
    const PendingCall no_collective{.pid_tgid = 1, .index = 0};
    ASSERT_EQ(map_command(BPF_MAP_UPDATE_ELEM, counters.maps().pending, no_collective, begin), 0);
    const auto collectives = [&](std::uint32_t process) {
      EXPECT_EQ(map_command(BPF_MAP_LOOKUP_ELEM, counters.maps().steps, process, ring), 0);
      return ring.collectives;
    };
    counters.forget_calls(0);
    EXPECT_EQ(collectives(0), 3U);
    counters.forget_calls(work);
    EXPECT_EQ(collectives(0), 1U) << "two were under way";
    EXPECT_EQ(collectives(1), 3U);
    counters.forget_calls(work);
    EXPECT_EQ(collectives(0), 1U);
    ASSERT_EQ(
        map_command(BPF_MAP_UPDATE_ELEM, counters.maps().pending, PendingCall{.pid_tgid = 1, .index = work}, begin), 0);
    counters.reset(0, functions.size());
    EXPECT_EQ(collectives(0), 0U);
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
}

// Without a descriptor for the files of /proc, each process would seem to have ended.
TEST(Stack, LeavesDescriptorsForFilesThatAreReadOnce) {
  enum Told : int { refused_in_time = 0, no_bpf, no_library, not_refused, other_error, nothing_left };
  ChildProcess child = fork_child([]() -> int {
    const std::string path = std::string(STACK_DOUBLES) + "/libnccl.so.2";
    const Descriptor library(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const std::array<std::string_view, 1> wanted = {"ncclAllReduce"};
    const FoundFunctions found = find_functions(reader_of(library.get()), wanted);
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr || found.offsets.at(0) == 0) return no_library;
    const rlimit files{.rlim_cur = 96, .rlim_max = 96};
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return no_bpf;
    try {
      CallCounters counters(1);
      const CallCounters::Point point{.offset = found.offsets[0], .index = 0};
      std::vector<CallCounters::Attached> attached;
      for (int i = 0; i < 96 && (attached.empty() || attached.back().error == 0); ++i) {
        attached.push_back(counters.attach(library.get(), ::getpid(), CallShape{}, std::span(&point, 1)));
      }
      if (attached.back().error == 0) return not_refused;
      if (attached.back().error != EMFILE) return other_error;
      return Descriptor(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC)) ? refused_in_time : nothing_left;
    } catch (const Unavailable&) {
      return no_bpf;
    }
  });
  const int told = exit_status(child.wait());
  if (told == no_bpf) GTEST_SKIP() << "no calls can be counted here";
  EXPECT_EQ(told, refused_in_time);
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
