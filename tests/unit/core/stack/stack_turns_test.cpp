// Functions that cost too much rest, and are counted again when the budget allows it: the worker of the probe, with cpu
// times that are made up. Without the privilege for BPF these tests are skipped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "core/stack/probed_process.h"
#include "core/stack/stack_worker.h"
#include "hdf5schema/basics/call_filter.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"
#include "tests/unit/core/stack/hung_file_system.h"
#include "tests/unit/core/stack/many_mappings.h"
#include "tests/unit/core/toy_process.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::stack_turns_test {
namespace {

using namespace toy;

constexpr int kSkipped = 77;
constexpr int kDear = 200'000;    // calls that cost more than may be spent at once
constexpr double kLittle = 0.06;  // seconds in a round: the job does not hang, and earns hardly anything

/// Requests of the sampler to the worker.
class Requests {
 public:
  [[nodiscard]] static bool opens(const std::string& request) { return query_stack("", request).starts_with("ok "); }

  /// The process uses so much cpu time until each of the next requests.
  void use(double seconds) { more_ns_ = static_cast<std::int64_t>(seconds * 1e9); }
  void ask(int pid, int another = 0) {
    cpu_ns_ += more_ns_;
    answer_ = query_stack("", "calls\n" + line_of("rank0", pid) + line_of("rank1", another));
  }
  template <typename Condition>
  [[nodiscard]] bool comes_to(int pid, const Condition& holds) {
    for (int i = 0; i < 2000; ++i) {
      ask(pid);
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  [[nodiscard]] bool counts(std::string_view function) const {
    const std::string_view names = std::string_view(answer_).substr(0, answer_.find('\n'));
    return (std::string(names) + ' ').find(' ' + std::string(function) + ' ') != std::string::npos;
  }
  [[nodiscard]] bool has(std::string_view text) const { return answer_.find(text) != std::string::npos; }

 private:
  [[nodiscard]] std::string line_of(const std::string& instance, int pid) const {
    const auto start = pid > 0 ? start_of(pid) : std::nullopt;
    if (!start) return "";
    return instance + ' ' + std::to_string(pid) + ' ' + std::to_string(*start) + ' ' + std::to_string(cpu_ns_) + '\n';
  }

  std::int64_t cpu_ns_ = 0, more_ns_ = 0;
  std::string answer_;
};

/// In a process of its own: a worker has one job. 0 where all is as it should be, or the number of the line that is
/// not.
int status_of(const std::function<int(Requests&)>& body, const std::string& opening = "open\n") {
  ChildProcess child = fork_child([&] {
    Requests worker;
    return Requests::opens(opening) ? body(worker) : kSkipped;
  });
  return exit_status(child.wait());
}

#define EXPECT_NO_FAILURE(status)                                            \
  if (is_filtered()) GTEST_SKIP() << "the test runs under a seccomp filter"; \
  const int outcome = status;                                                \
  if (outcome == kSkipped) GTEST_SKIP() << "no calls can be counted here";   \
  EXPECT_EQ(outcome, 0)

/// Until its calls are no longer counted.
bool makes_rest(Requests& worker, const ToyProcess& toy) {
  worker.use(kLittle);
  if (!worker.comes_to(toy.pid(), [&] { return worker.counts("ncclAllReduce") && toy.probed(); })) return false;
  // Nobody asks meanwhile: the round that attached ends. To detach what it prepared by takes longest.
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  static_cast<void>(toy.ask({.call = Call::reduce, .times = kDear}));
  return worker.comes_to(toy.pid(), [&] { return !worker.counts("ncclAllReduce"); }) &&
         worker.comes_to(toy.pid(), [&] { return !toy.probed(); });
}

TEST(StackTurns, CountAFunctionAgainWhenItsCostIsEarned) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  EXPECT_NO_FAILURE(status_of([&](Requests& worker) {
    if (!makes_rest(worker, toy)) return 1;
    if (!worker.has("note ncclAllReduce was counted in turns, ") || !worker.has(" calls took ")) return 2;
    if (worker.has("count rank0 ncclAllReduce ")) return 3;
    static_cast<void>(toy.ask({.call = Call::reduce, .times = 1000}));  // these are not seen
    static_cast<void>(toy.ask({.call = Call::allocate, .times = 3}));
    if (!worker.comes_to(toy.pid(), [&] { return worker.has("count rank0 cudaMalloc 3 "); })) return 4;
    for (int round = 0; round < 30; ++round) {
      worker.ask(toy.pid());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (worker.counts("ncclAllReduce")) return 5;  // the job has computed hardly anything
    worker.use(100);
    if (!worker.comes_to(toy.pid(), [&] { return worker.counts("ncclAllReduce"); })) return 6;
    if (!toy.probed()) return 7;
    static_cast<void>(toy.ask({.call = Call::reduce, .times = 7}));
    const std::string count = "count rank0 ncclAllReduce " + std::to_string(kDear + 7) + ' ';
    if (!worker.comes_to(toy.pid(), [&] { return worker.has(count); })) return 8;
    return worker.has("note ncclAllReduce was counted in turns, ") ? 0 : 9;
  }));
}

// Without another request: between two answers, one of which would lack its sums, the first calls would be spread over
// a time in which none were counted.
TEST(StackTurns, BeginRightBehindTheAnswerThatHasTheSums) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  EXPECT_NO_FAILURE(status_of([&](Requests& worker) {
    if (!makes_rest(worker, toy)) return 1;
    worker.use(100);
    if (!worker.comes_to(toy.pid(), [&] { return worker.has("count rank0 ncclAllReduce "); })) return 2;
    if (worker.counts("ncclAllReduce")) return 3;
    for (int i = 0; i < 2000 && !toy.probed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!toy.probed()) return 4;
    static_cast<void>(toy.ask({.call = Call::reduce, .times = 7}));
    const std::string count = "count rank0 ncclAllReduce " + std::to_string(kDear + 7) + ' ';
    return worker.comes_to(toy.pid(), [&] { return worker.has(count); }) ? 0 : 5;
  }));
}

TEST(StackTurns, SurviveTheEndOfAProcessMeanwhile) {
  ToyProcess first;
  const ToyProcess second;
  ASSERT_EQ(first.ask({.call = Call::load}), 0);
  ASSERT_EQ(second.ask({.call = Call::load}), 0);
  const int pid = first.pid();
  EXPECT_NO_FAILURE(status_of([&](Requests& worker) {
    if (!makes_rest(worker, first)) return 1;
    ::kill(pid, SIGKILL);
    for (int i = 0; i < 3; ++i) worker.ask(0);
    if (!worker.comes_to(second.pid(), [&] { return second.probed("cudaMalloc"); })) return 2;
    if (second.probed()) return 3;  // it rests in each process
    worker.use(100);
    if (!worker.comes_to(second.pid(), [&] { return second.probed(); })) return 4;
    static_cast<void>(second.ask({.call = Call::reduce, .times = 5}));
    const std::string count = "count rank0 ncclAllReduce " + std::to_string(kDear + 5) + ' ';
    return worker.comes_to(second.pid(), [&] { return worker.has(count); }) ? 0 : 5;
  }));
}

// It keeps no budget then.
TEST(StackTurns, LeaveNothingAttachedWhereTheCollectorHangs) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  const auto body = [&](Requests& worker) {
    if (!worker.comes_to(toy.pid(), [&] { return toy.probed(); })) return 1;
    for (int i = 0; i < 1000 && toy.probed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (toy.probed()) return 2;
    static_cast<void>(toy.ask({.call = Call::reduce, .times = 9}));  // these are not seen
    if (!worker.comes_to(toy.pid(), [&] { return toy.probed(); })) return 3;
    static_cast<void>(toy.ask({.call = Call::reduce, .times = 4}));
    if (!worker.comes_to(toy.pid(), [&] { return worker.has("count rank0 ncclAllReduce 4 "); })) return 4;
    return worker.has("note nothing was counted while the collector hung or was stopped") ? 0 : 5;
  };
  EXPECT_NO_FAILURE(status_of(body, "open here 300\n"));
}

/// A process that has done this, and has no end of its own; where it failed, it has ended.
ChildProcess process_after(const std::function<bool()>& action) {
  Pipe ready = open_pipe();
  ChildProcess user = fork_child([&] {
    if (!action()) return 1;
    if (::write(ready.write.get(), "", 1) != 1) return 2;
    return ::pause();
  });
  ready.write.close();
  char done = 0;
  if (::read(ready.read.get(), &done, 1) != 1) static_cast<void>(user.wait());
  return user;
}

/// A process that has mapped the file as code.
ChildProcess user_of(HungFileSystem& files) {
  ChildProcess user = process_after([&] {
    files.leave();
    return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, files.file().get(), 0) != MAP_FAILED;
  });
  EXPECT_FALSE(user.status());
  return user;
}

TEST(StackTurns, FindALibraryBehindThousandsOfMappings) {
  const TemporaryDirectory directory;
  const std::filesystem::path library = std::string(STACK_DOUBLES) + "/libcudart.so.13";
  ChildProcess user = process_after([&] { return map_behind_many(directory.path(), library); });
  if (user.status()) GTEST_SKIP() << "a process may not have so many mappings here";
  const int pid = user.pid();
  const int result = status_of(
      [pid](Requests& worker) { return worker.comes_to(pid, [&] { return worker.counts("cudaMalloc"); }) ? 0 : 1; });
  user.kill(std::chrono::seconds(10));
  EXPECT_NO_FAILURE(result);
}

/// Maps each page of a file of so many pages as code, by itself.
bool map_in_parts(const std::filesystem::path& file, std::size_t pages) {
  constexpr std::size_t kPage = 4096;
  std::ofstream(file) << std::string(pages * kPage, 'x');
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  void* const place = ::mmap(nullptr, pages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return false;
  for (std::size_t i = 0; i < pages; ++i) {  // the last page first: the kernel does not join them
    void* const at = static_cast<std::byte*>(place) + i * kPage;
    const auto offset = static_cast<off_t>((pages - 1 - i) * kPage);
    if (::mmap(at, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, opened.get(), offset) == MAP_FAILED) {
      return false;
    }
  }
  return true;
}

TEST(StackTurns, TellThatAProcessHasMoreMappingsThanAreLookedInto) {
  const TemporaryDirectory directory;
  ChildProcess user = process_after([&] { return map_in_parts(directory.path() / "libnccl.so.2", 600); });
  ASSERT_FALSE(user.status());
  const int pid = user.pid();
  const int result = status_of([pid](Requests& worker) {
    const auto told = [&] {
      return worker.has("note functions of some libraries of rank0 are not counted: only its first 512 mappings");
    };
    return worker.comes_to(pid, told) ? 0 : 1;
  });
  user.kill(std::chrono::seconds(10));
  EXPECT_NO_FAILURE(result);
}

TEST(StackTurns, NeverAttachToWhatTheConfigurationLeavesOut) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  const auto body = [&](Requests& worker) {
    const auto others = [&] { return worker.counts("ncclReduce") && worker.counts("cudaMalloc"); };
    if (!worker.comes_to(toy.pid(), others)) return 1;
    if (worker.counts("ncclAllReduce") || worker.counts("c10d.work") || toy.probed()) return 2;
    return worker.has("note never counted, by stack_without: ncclAllReduce c10d.work c10d.wait\n") ? 0 : 3;
  };
  EXPECT_NO_FAILURE(status_of(body, "open\nwithout ncclAllReduce c10d.*\n"));
}

TEST(StackTurns, KeepTheLimitThatIsSetAndTellHowLongAttachingTook) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  const auto body = [&](Requests& worker) {
    if (!worker.comes_to(toy.pid(), [&] { return worker.has("\nattaching rank0 "); })) return 1;
    if (!makes_rest(worker, toy)) return 2;
    return worker.has(" ms of cpu time (limit 1.5 %)\n") ? 0 : 3;
  };
  EXPECT_NO_FAILURE(status_of(body, "open\nbudget 15000\n"));
}

// Its thread that attaches keeps no budget then, and holds the whole process, even against SIGKILL.
TEST(StackTurns, LeaveNothingAttachedWhereAFileSystemHoldsTheWorker) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  EXPECT_NO_FAILURE(status_of([](Requests& /*worker*/) { return 0; }));
  const Pipe order = open_pipe();
  ChildProcess child = fork_child([&] {  // before the file is open, whose close would wait, too
    Requests worker;
    if (!Requests::opens("open here 150000 1000\n")) return 2;
    if (!worker.comes_to(toy.pid(), [&] { return toy.probed(); })) return 3;
    int another = 0;
    while (::read(order.read.get(), &another, sizeof another) != sizeof another) {
    }
    for (int i = 0; i < 10'000; ++i) {
      worker.ask(toy.pid(), another);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return 4;
  });
  ChildProcess user;
  {
    HungFileSystem hung;
    if (!hung.file()) {
      child.kill(std::chrono::seconds(10));
      GTEST_SKIP() << "no file system of a user (FUSE) can be mounted here";
    }
    user = user_of(hung);
    const int pid = user.pid();
    EXPECT_EQ(::write(order.write.get(), &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    EXPECT_TRUE(hung.comes_to_be_asked());
    for (int i = 0; i < 2000 && toy.probed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(toy.probed());
    EXPECT_FALSE(child.status()) << "it hangs in the kernel, and has detached nevertheless";
  }
  EXPECT_EQ(exit_status(child.wait()), 1);
  user.kill(std::chrono::seconds(10));
}

// A breakpoint changes its page: the functions beside it would seem to be replaced.
TEST(StackTurns, CountAllFunctionsOfAPageWhereTheKernelDoesNotShowIt) {
  constexpr int kNotShown[] = {SYS_process_vm_readv};
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ChildProcess child = fork_child([&]() -> int {
    CallFilter filter;
    filter.refuse(kNotShown);
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !filter.install()) return kSkipped;
    Requests worker;
    if (!Requests::opens("open\n")) return kSkipped;
    const auto all = [&] { return worker.counts("ncclAllReduce") && worker.counts("ncclReduce"); };
    return worker.comes_to(toy.pid(), all) ? 0 : 1;
  });
  EXPECT_NO_FAILURE(exit_status(child.wait()));
}

TEST(StackTurns, LeaveNothingAttachedWhereTheCollectorIsKilled) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  EXPECT_NO_FAILURE(status_of([&](Requests& worker) {
    if (!makes_rest(worker, toy)) return 1;
    worker.use(100);
    return worker.comes_to(toy.pid(), [&] { return toy.probed(); }) ? 0 : 2;  // the child ends with its threads
  }));
  for (int i = 0; i < 1000 && toy.probed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(toy.probed());
}

}  // namespace
}  // namespace reveal::tests::stack_turns_test
