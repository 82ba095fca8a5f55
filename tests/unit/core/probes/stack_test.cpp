// The probe "stack" against doubles of the libraries (tests/doubles/stack_double.cpp), in a process with exactly known
// calls. Without the privilege for BPF these tests are skipped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/python_process.h"
#include "tests/unit/core/toy_process.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::stack_test {
namespace {

using namespace toy;

TEST(Stack, IsOffUnlessItIsAskedFor) {
  KernelTree fs;
  TraceSink sink;
  const Sampler sampler(fs, sink, {.job = JobSource{.pid = ::getpid()}}, now());
  for (const Coverage& fact : sampler.coverage()) {
    if (fact.probe != "stack") continue;
    EXPECT_EQ(fact.state, Coverage::State::absent);
    EXPECT_EQ(fact.reason, "it is off by default (reveal-run --stack, srun --reveal=stack=on)");
    return;
  }
  FAIL() << "no coverage of the probe";
}

TEST(Stack, IsTriedWithAProcessWhoseDeathIsSeen) {
  const ToyProcess toy;
  ::kill(toy.pid(), SIGKILL);
  EXPECT_THROW(static_cast<void>(toy.ask({.call = Call::load})), std::runtime_error);
}

TEST(Stack, HasNothingToAttachToInACopiedTree) {
  TestHost host;
  host.process(100, 1, "train", 0, 0);
  const ProbeBench bench(host, "stack", JobSource{.pid = 100});
  EXPECT_EQ(bench.coverage().reason, "a copied tree has no processes to attach to");
}

TEST(Stack, CountsCallsBytesAndErrorsExactly) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  bench.sample();
  EXPECT_NE(bench.coverage().reason.find("no process has loaded a library"), std::string::npos);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);  // after the start, as programs do
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce") && bench.attached(toy, "cudaMalloc")) << bench.coverage().reason;
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 700}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce_elsewhere, .times = 20}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 3, .status = 5}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 2, .status = 7}), 0);  // in progress: no error
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 10, .bytes = 4096}), 0);
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 1, .bytes = std::size_t{1} << 40}), 2);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 725) && bench.counts("cudaMalloc", 11)) << bench.coverage().reason;
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 725);
  EXPECT_EQ(bench.value("stack.bytes", "ncclAllReduce"), 725 * 2 * static_cast<std::int64_t>(kElements));
  EXPECT_EQ(bench.value("stack.errors", "ncclAllReduce"), 3);
  EXPECT_EQ(bench.value("stack.in_flight", "ncclAllReduce"), 0);
  EXPECT_EQ(bench.value("stack.calls", "cudaMalloc"), 11);
  EXPECT_EQ(bench.value("stack.bytes", "cudaMalloc"), 10 * 4096 + (std::int64_t{1} << 40));
  EXPECT_EQ(bench.value("stack.errors", "cudaMalloc"), 1);
  EXPECT_EQ(bench.coverage().reason, "");
}

TEST(Stack, CountsNoBytesWhereAnArgumentCanBeNoSize) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "cudaMalloc")) << bench.coverage().reason;
  constexpr std::size_t kMostBytes = std::size_t{1} << 44U;
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 1, .bytes = kMostBytes}), 2);
  ASSERT_TRUE(bench.counts("cudaMalloc", 1));
  EXPECT_EQ(bench.value("stack.bytes", "cudaMalloc"), static_cast<std::int64_t>(kMostBytes));
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 1, .bytes = kMostBytes + 1}), 2);
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 1, .bytes = ~std::size_t{0}}), 2);
  ASSERT_TRUE(bench.counts("cudaMalloc", 3));
  EXPECT_EQ(bench.value("stack.bytes", "cudaMalloc"), kMissing);
  EXPECT_NE(bench.coverage().reason.find("the bytes of 2 calls are not known"), std::string::npos);
}

TEST(Stack, CountsEveryErrorByItself) {
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", {.node = "n01", .interval = std::chrono::seconds(1)});
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "ncclAllReduce")) << bench.coverage().reason;
    EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 3, .status = 5}), 0);
    EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 4, .status = 2}), 0);
    EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 2, .status = 5}), 0);
    for (int status = 10; status < 16; ++status) EXPECT_EQ(toy.ask({.call = Call::reduce, .status = status}), 0);
    ASSERT_TRUE(bench.until([&] { return bench.value("stack.errors", "ncclAllReduce") == 15; }));
    bench.sample();
    trace.close();
  }
  std::set<std::string> texts;
  for (const Event& event : TraceReader(directory.path() / "t.h5").events()) {
    if (event.code == "call_error") texts.insert(event.object + ": " + event.text);
  }
  EXPECT_TRUE(texts.contains("rank0: ncclAllReduce returned 5 (5 calls so far)"));
  EXPECT_TRUE(texts.contains("rank0: ncclAllReduce returned 2 (4 calls so far)"));
  EXPECT_TRUE(texts.contains("rank0: ncclAllReduce returned 11 (1 calls so far)"));
  EXPECT_TRUE(std::none_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find("returned 12") != std::string::npos;
  })) << "there is room for four";
}

TEST(Stack, FindsFunctionsInEveryPartOfAFileThatIsCode) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::map_header}), 0);
  for (int i = 0; i < 20; ++i) {  // so that it is looked into
    bench.sample();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce")) << bench.coverage().reason;
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 5}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 5));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 5);
}

TEST(Stack, DoesNotGuessTheSizeOfAnUnknownDatatype) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 4, .type = 12}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 4));
  EXPECT_EQ(bench.value("stack.bytes", "ncclAllReduce"), kMissing);
  EXPECT_NE(bench.coverage().reason.find("the bytes of 4 calls are not known"), std::string::npos);
}

TEST(Stack, MeasuresHowLongCallsTakeAndThatOneHangs) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::pause, .times = 3}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 3));
  EXPECT_GE(bench.value("stack.time", "ncclAllReduce"), 3 * kPause);
  toy.tell({.call = Call::hang});
  ASSERT_TRUE(bench.counts("ncclAllReduce", 4));
  ASSERT_TRUE(bench.until([&] { return bench.value("stack.in_flight", "ncclAllReduce") > kPause; }));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 4);
}

TEST(Stack, MeasuresAProcessInANamespaceOfItsOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root for a namespace";
  const ToyProcess toy(ToyProcess::Kept::apart);
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 8, .status = 5}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 8));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 8);
  EXPECT_EQ(bench.value("stack.errors", "ncclAllReduce"), 8);
  toy.tell({.call = Call::hang});
  ASSERT_TRUE(bench.until([&] { return bench.value("stack.in_flight", "ncclAllReduce") > kPause; }));
}

// A return probe would end the program here.
TEST(Stack, LetsExceptionsPass) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "gloo.allreduce"));
  EXPECT_EQ(toy.ask({.call = Call::gloo, .times = 5}), 0);
  EXPECT_EQ(toy.ask({.call = Call::gloo_throws, .times = 2}), 2);
  ASSERT_TRUE(bench.counts("gloo.allreduce", 7));
  EXPECT_EQ(bench.value("stack.calls", "gloo.allreduce"), 7);
  EXPECT_EQ(bench.value("stack.time", "gloo.allreduce"), kMissing);
  EXPECT_EQ(bench.value("stack.errors", "gloo.allreduce"), kMissing);
}

// An exception thrown inside does not pass the return address that the kernel has put on the stack.
TEST(Stack, TimesAFunctionThatCatchesAllExceptions) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "c10d.work"));
  EXPECT_EQ(toy.ask({.call = Call::work, .times = 5}), 0);
  EXPECT_EQ(toy.ask({.call = Call::work_that_throws, .times = 2}), 0);
  ASSERT_TRUE(bench.counts("c10d.work", 7));
  EXPECT_EQ(bench.value("stack.calls", "c10d.work"), 7);
  EXPECT_GT(bench.value("stack.time", "c10d.work"), 0);
  EXPECT_EQ(bench.value("stack.in_flight", "c10d.work"), 0);
  EXPECT_EQ(bench.value("stack.errors", "c10d.work"), kMissing) << "it returns nothing that could be one";
}

TEST(Stack, CountsTheBytesThatGlooMoves) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "gloo.allreduce"));
  EXPECT_EQ(toy.ask({.call = Call::gloo, .times = 30}), 0);
  ASSERT_TRUE(bench.counts("gloo.allreduce", 30));
  EXPECT_EQ(bench.value("stack.bytes", "gloo.allreduce"), 30 * 4 * static_cast<std::int64_t>(kElements));
  EXPECT_EQ(bench.coverage().reason, "");
  EXPECT_EQ(toy.ask({.call = Call::gloo, .element_size = 4711}), 0);  // another version of gloo
  ASSERT_TRUE(bench.counts("gloo.allreduce", 31));
  EXPECT_EQ(bench.value("stack.bytes", "gloo.allreduce"), kMissing) << "no number is invented";
}

TEST(Stack, CountsTheTimeOfCollectivesBesideEachOtherOnce) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "c10d.work"));
  EXPECT_EQ(toy.ask({.call = Call::work_side_by_side}), 0);
  ASSERT_TRUE(bench.counts("c10d.work", 2));
  const std::int64_t together = bench.value_of("stack.communication");
  const std::int64_t sum = bench.value("stack.time", "c10d.work");
  EXPECT_GE(sum, 2 * 10 * kPause);
  EXPECT_GE(together, 10 * kPause);
  EXPECT_LT(together, sum);
  EXPECT_EQ(toy.ask({.call = Call::work_side_by_side}), 0);
  ASSERT_TRUE(bench.counts("c10d.work", 4));
  EXPECT_GE(bench.value_of("stack.communication"), together + 10 * kPause) << "the first ones have ended";
}

/// It collects on one signal, imports on the other, and else does neither.
std::string collecting_program(const std::filesystem::path& folder) {
  return "import gc, signal, sys, time\n"
         "gc.disable()\n"
         "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])\n"
         "sys.path.insert(0, '" +
         folder.string() +
         "')\n"
         "print('ready')\n"
         "signal.sigwait([signal.SIGUSR1])\n"
         "for i in range(40): gc.collect()\n"
         "signal.sigwait([signal.SIGUSR2])\n"
         "try: import outer_one\n"
         "except ImportError: time.sleep(1000)\n";
}

TEST(Stack, MeasuresThatPythonCollectsAndImports) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "outer_one.py") << "import inner_one\n";
  std::ofstream(folder.path() / "inner_one.py") << "import time\ntime.sleep(.02)\nimport inner_two\n";
  std::ofstream(folder.path() / "inner_two.py") << "import not_there_at_all\n";
  const PythonProcess python(collecting_program(folder.path()));
  if (python.line() != "ready" || !has_marks(python)) GTEST_SKIP() << "no python3 with marks for tracing";
  StackBench bench(python.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_TRUE(bench.until([&] { return bench.fact("stack.functions").find("python.import") != std::string::npos; }))
      << bench.coverage().reason;
  ::kill(python.pid(), SIGUSR1);
  ASSERT_TRUE(bench.counts("python.gc", 40));
  EXPECT_EQ(bench.value("stack.calls", "python.gc"), 40);
  ASSERT_TRUE(bench.until([&] { return bench.value("stack.in_flight", "python.gc") == 0; }));
  EXPECT_GT(bench.value("stack.time", "python.gc"), 0);
  EXPECT_EQ(bench.value("stack.errors", "python.gc"), kMissing);
  ::kill(python.pid(), SIGUSR2);
  std::int64_t longest = 0;
  ASSERT_TRUE(bench.until([&] {
    longest = std::max(longest, bench.value("stack.longest", "python.import"));
    return bench.value("stack.calls", "python.import") == 4 && bench.value("stack.in_flight", "python.import") == 0;
  })) << "one of them fails";
  EXPECT_GE(bench.value("stack.time", "python.import"), kPause);
  EXPECT_EQ(bench.value("stack.time", "python.import"), longest) << "the inner ones are a part of the outermost";
}

TEST(Stack, TellsOfEachLongGarbageCollection) {
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", {.node = "n01", .interval = std::chrono::seconds(1)});
  {
    // A collection visits them all: some ten milliseconds.
    const PythonProcess python(
        "import gc, signal\n"
        "gc.disable()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])\n"
        "kept = [[i] for i in range(300000)]\n"
        "print('ready')\n"
        "signal.sigwait([signal.SIGUSR1])\n"
        "for i in range(3): gc.collect()\n"
        "signal.sigwait([signal.SIGUSR2])\n");
    if (python.line() != "ready" || !has_marks(python)) GTEST_SKIP() << "no python3 with marks for tracing";
    StackBench bench(python.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_TRUE(bench.until([&] { return bench.fact("stack.functions").find("python.gc") != std::string::npos; }))
        << bench.coverage().reason;
    ::kill(python.pid(), SIGUSR1);
    ASSERT_TRUE(bench.counts("python.gc", 3));
    ASSERT_TRUE(bench.until([&] { return bench.value("stack.in_flight", "python.gc") == 0; }));
    int rows = 0;  // the event may come a little later
    ASSERT_TRUE(bench.until([&] { return ++rows == 20; }));
    trace.close();
  }
  std::vector<std::string> pauses;
  for (const Event& event : TraceReader(directory.path() / "t.h5").events()) {
    if (event.code == "gc_pause" && event.object == "rank0") pauses.push_back(event.text);
  }
  ASSERT_EQ(pauses.size(), 3U);
  for (const std::string& text : pauses) {
    EXPECT_TRUE(text.starts_with("begin=")) << text;
    const std::size_t at = text.find(" duration=");
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_GE(std::stoll(text.substr(at + std::string_view(" duration=").size())), 1'000'000) << text;
  }
}

// Some kernels end a process under such a filter when a timed call returns.
TEST(Stack, DoesNotTimeCallsUnderASeccompFilter) {
  const ToyProcess toy(ToyProcess::Kept::filtered);
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 6, .status = 5}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 6));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 6);
  EXPECT_EQ(bench.value("stack.bytes", "ncclAllReduce"), 6 * 2 * static_cast<std::int64_t>(kElements));
  EXPECT_EQ(bench.value("stack.time", "ncclAllReduce"), kMissing);
  EXPECT_EQ(bench.value("stack.errors", "ncclAllReduce"), kMissing);
  EXPECT_NE(bench.coverage().reason.find("calls of 1 processes are counted and not timed"), std::string::npos);
}

TEST(Stack, KeepsWhatAProcessCountedUntilItsEnd) {
  ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 50}), 0);
  toy.end();
  ASSERT_TRUE(bench.counts("ncclAllReduce", 50));
  ASSERT_TRUE(bench.until([&] { return bench.value("stack.in_flight", "ncclAllReduce") == kMissing; }));
  ASSERT_TRUE(bench.counts("ncclAllReduce", 50));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 50);
}

TEST(Stack, TouchesNoProcessOutsideOfTheJob) {
  const ToyProcess toy;
  const ToyProcess outsider;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_EQ(outsider.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  EXPECT_TRUE(toy.probed());
  EXPECT_FALSE(outsider.probed());
  EXPECT_EQ(outsider.ask({.call = Call::reduce, .times = 9}), 0);
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 2}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 2));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 2);
}

// Valgrind executes a translation of the code that it reads: a breakpoint in it ends the program.
TEST(Stack, LeavesAProcessAloneWhoseCodeIsTranslated) {
  constexpr std::size_t kPage = 4096;
  const TemporaryDirectory directory;
  const std::filesystem::path tool = directory.path() / "none-amd64-linux";
  std::ofstream(tool) << std::string(kPage, 'x');
  const Descriptor file(::open(tool.c_str(), O_RDONLY | O_CLOEXEC));
  void* const mapped = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const ToyProcess toy;  // inherits it
  ::munmap(mapped, kPage);
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  const auto told = [&] { return bench.coverage().reason.find("processes under Valgrind") != std::string::npos; };
  EXPECT_TRUE(bench.until(told)) << bench.coverage().reason;
  EXPECT_FALSE(toy.probed());
  EXPECT_FALSE(toy.probed("cudaMalloc"));
}

// UCX does that with functions of CUDA's driver. Behind a breakpoint in the jump, the process would crash.
TEST(Stack, LeavesAFunctionAloneThatTheProgramHasReplaced) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_EQ(toy.ask({.call = Call::replace}), 0);  // before anything can be attached
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_TRUE(bench.attached(toy, "cudaMalloc"));
  const auto told = [&] {
    return bench.coverage().reason.find("ncclAllReduce is not measured: its code in memory is not known to be that") !=
           std::string::npos;
  };
  EXPECT_TRUE(bench.until(told)) << bench.coverage().reason;
  EXPECT_FALSE(toy.probed());
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 3, .status = kReplacedStatus}), 0);
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), kMissing);
}

TEST(Stack, LetsAFunctionRestThatCostsTheJobTooMuch) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_FALSE(bench.sink().families().empty());
  for (const Family& family : bench.sink().families()) {
    if (family.spec().path == "stack/histogram") continue;  // it has the sums of functions that rest, too
    EXPECT_EQ(family.spec().longest_rest, std::chrono::nanoseconds(0)) << family.spec().path << " counts in turns";
  }
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "cudaMalloc") && bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 5, .bytes = 1}), 0);
  // A fifth of a second at least: .05 s may be spent at once.
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 200'000}), 0);
  const auto noted = [&] {
    return bench.coverage().reason.find("ncclAllReduce was counted in turns, ") != std::string::npos &&
           bench.fact("stack.functions").find("ncclAllReduce") == std::string::npos;
  };
  ASSERT_TRUE(bench.until(noted)) << bench.coverage().reason;
  EXPECT_TRUE(bench.until([&] { return !toy.probed(); }));
  ASSERT_TRUE(bench.counts("cudaMalloc", 5));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), kMissing);
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 5, .bytes = 1}), 0);
  ASSERT_TRUE(bench.counts("cudaMalloc", 10));
}

TEST(Stack, LetsGoOfAllFunctionsWhileTheJobsOwnProfilerRuns) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce") && bench.attached(toy, "cudaMalloc"));
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 5}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 5));
  EXPECT_EQ(bench.coverage().reason, "");
  ASSERT_EQ(toy.ask({.call = Call::begin_profile}), 0);
  bench.pass(2 * kSecond);
  EXPECT_TRUE(bench.until([&] { return !toy.probed() && !toy.probed("cudaMalloc"); }));
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 9}), 0);  // these are not seen
  EXPECT_NE(bench.coverage().reason.find("while the job's own profiler ran, no function was attached"),
            std::string::npos)
      << bench.coverage().reason;
  ASSERT_EQ(toy.ask({.call = Call::end_profile}), 0);
  bench.pass(10 * kSecond);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce")) << bench.coverage().reason;
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 2}), 0);
  ASSERT_TRUE(bench.counts("ncclAllReduce", 7));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), 7);
}

TEST(Stack, StatesHowLongAttachingTook) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  bench.sample();
  EXPECT_EQ(bench.fact("stack.attaching"), "");
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "ncclAllReduce"));
  ASSERT_TRUE(bench.until([&] { return bench.fact("stack.attaching").starts_with("rank0: "); }));
  EXPECT_TRUE(bench.fact("stack.attaching").ends_with(" ms")) << bench.fact("stack.attaching");
}

TEST(Stack, LeavesNothingAttachedWhenTheCollectorIsKilled) {
  const ToyProcess toy;
  {
    StackBench bench(toy.pid());
    SKIP_WITHOUT_BPF(bench);
  }
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  const pid_t collector = ::fork();
  if (collector == 0) {
    StackBench bench(toy.pid());
    while (true) {
      bench.sample();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  const auto comes_to = [&](bool probed) {
    for (int i = 0; i < 2000; ++i) {
      if (toy.probed() == probed) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  };
  EXPECT_TRUE(comes_to(true));
  ::kill(collector, SIGKILL);
  ::waitpid(collector, nullptr, 0);
  EXPECT_TRUE(comes_to(false));
}

}  // namespace
}  // namespace reveal::tests::stack_test
