// The probe "stack" against doubles of the libraries (tests/doubles/stack_double.cpp), in a process with exactly known
// calls. Without the privilege for BPF these tests are skipped.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "core/stack/call_counters.h"
#include "core/stack/call_ledger.h"
#include "core/stack/elf_symbols.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/python_process.h"
#include "tests/unit/core/test_host.h"
#include "tests/unit/temporary_directory.h"

namespace gloo {
struct AllreduceOptions;  // defined by the doubles
}

namespace reveal::tests::stack_test {
namespace {

constexpr std::size_t kElements = 1000;
constexpr int kBfloat16 = 9;
constexpr std::int64_t kPause = 20'000'000;  // ns

/// As the double of gloo has them.
struct GlooOptions {
  bool fails = false;
  char context_and_buffers[79]{};
  std::size_t elements = kElements;
  std::size_t element_size = sizeof(float);
};

/// An order to a process of the job.
struct Order {
  enum class Call : std::uint8_t {
    map_header,
    load,
    reduce,
    reduce_elsewhere,
    pause,
    hang,
    allocate,
    gloo,
    gloo_throws,
    work,
    work_that_throws,
    work_side_by_side,
    step,
    step_within,
    first_byte
  };
  Call call = Call::load;
  int times = 1;
  int status = 0;                            // that the calls return
  int type = kBfloat16;                      // type of the elements
  std::size_t bytes = 0;                     // to allocate
  std::size_t element_size = sizeof(float);  // that gloo moves
  /// Whose first byte is asked for.
  enum class Function : std::uint8_t { reduce, allocate, gloo, work, backward };
  Function function = Function::reduce;
};
using Call = Order::Call;

class ToyProcess {
 public:
  /// filtered: under a seccomp filter, which allows everything. apart: in a namespace of processes, as in a container.
  enum class Kept : std::uint8_t { free, filtered, apart };
  explicit ToyProcess(Kept kept = Kept::free) : kept_(kept) {
    ::signal(SIGPIPE, SIG_IGN);
    if (::pipe(order_) != 0 || ::pipe(report_) != 0) throw std::runtime_error("no pipe");
    pid_ =
        kept == Kept::apart ? static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0)) : ::fork();
    if (pid_ < 0) throw std::runtime_error("no process");
    if (pid_ == 0) serve();
    ::close(order_[0]);
    ::close(report_[1]);
  }
  ~ToyProcess() {
    end();
    ::close(order_[1]);
    ::close(report_[0]);
  }
  ToyProcess(const ToyProcess&) = delete;
  ToyProcess& operator=(const ToyProcess&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  /// Returns its answer when it is done.
  [[nodiscard]] int ask(const Order& order) const {
    tell(order);
    int answer = 0;
    if (::read(report_[0], &answer, sizeof answer) != sizeof answer) throw std::runtime_error("the process has gone");
    return answer;
  }
  void tell(const Order& order) const {
    if (::write(order_[1], &order, sizeof order) != sizeof order) throw std::runtime_error("the process has gone");
  }
  /// Where several libraries have the function: in the one whose function is called.
  [[nodiscard]] bool probed(const std::string& function = "ncclAllReduce") const {
    constexpr std::pair<std::string_view, Order::Function> kFunctions[] = {
        {"ncclAllReduce", Order::Function::reduce},
        {"cudaMalloc", Order::Function::allocate},
        {"gloo.allreduce", Order::Function::gloo},
        {"c10d.work", Order::Function::work},
        {"torch.backward", Order::Function::backward}};
    for (const auto& [name, number] : kFunctions) {
      if (name == function) return ask({.call = Call::first_byte, .function = number}) == 0xcc;
    }
    throw std::runtime_error("the process does not call " + function);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  using Reduce = int (*)(const void*, void*, std::size_t, int, int, void*, void*);
  using Allocate = int (*)(void**, std::size_t);
  using Gloo = void (*)(const gloo::AllreduceOptions&);
  using Work = void (*)(std::int64_t);
  using Backward = int (*)();
  struct Functions {
    Reduce reduce = nullptr;
    Allocate allocate = nullptr;
    Gloo gloo = nullptr;
    Work work = nullptr;
    Backward backward = nullptr;
  };

  static void* symbol(const char* library, const char* name) {
    void* const opened = ::dlopen((std::string(STACK_DOUBLES) + '/' + library).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found = opened == nullptr ? nullptr : ::dlsym(opened, name);
    if (found == nullptr) ::_exit(3);
    return found;
  }

  [[noreturn]] void serve() const {
    ::close(order_[1]);
    ::close(report_[0]);
    if (kept_ == Kept::filtered) {
      sock_filter allow{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ALLOW};
      const sock_fprog program{.len = 1, .filter = &allow};
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(4);
    }
    Order order;
    Functions functions;
    while (::read(order_[0], &order, sizeof order) == sizeof order) {
      if (order.call == Call::load) {
        functions = {reinterpret_cast<Reduce>(symbol("libnccl.so.2", "ncclAllReduce")),
                     reinterpret_cast<Allocate>(symbol("libcudart.so.13", "cudaMalloc")),
                     reinterpret_cast<Gloo>(symbol("libgloo.so.0", "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE")),
                     reinterpret_cast<Work>(symbol(
                         "libtorch_cpu.so",
                         "_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_"
                         "target_default_null_typeIS1_EEEE")),
                     reinterpret_cast<Backward>(symbol(
                         "libtorch_cpu.so",
                         "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_"
                         "EEbbbS7_"))};
      }
      int answer = order.call == Call::first_byte ? first_byte(functions, order.function) : 0;
      for (int i = 0; i < order.times; ++i) answer += call(order, functions);
      if (::write(report_[1], &answer, sizeof answer) != sizeof answer) break;
    }
    ::_exit(0);
  }

  /// 0 before it is loaded.
  static int first_byte(const Functions& functions, Order::Function function) {
    const void* code = nullptr;
    switch (function) {
      case Order::Function::reduce:
        code = reinterpret_cast<const void*>(functions.reduce);
        break;
      case Order::Function::allocate:
        code = reinterpret_cast<const void*>(functions.allocate);
        break;
      case Order::Function::gloo:
        code = reinterpret_cast<const void*>(functions.gloo);
        break;
      case Order::Function::work:
        code = reinterpret_cast<const void*>(functions.work);
        break;
      case Order::Function::backward:
        code = reinterpret_cast<const void*>(functions.backward);
        break;
    }
    return code == nullptr ? 0 : *static_cast<const volatile unsigned char*>(code);
  }

  /// The begin of a library as code, in which there is none.
  static int map_header() {
    constexpr std::size_t kPage = 4096;
    const int file = ::open((std::string(STACK_DOUBLES) + "/libnccl.so.2").c_str(), O_RDONLY | O_CLOEXEC);
    const void* const mapped = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    ::close(file);
    return mapped == MAP_FAILED ? 1 : 0;
  }

  static int call(const Order& order, const Functions& functions) {
    const auto reduce_for = [&](std::int64_t nanoseconds) {
      return functions.reduce(nullptr, nullptr, kElements, order.type, order.status,
                              reinterpret_cast<void*>(static_cast<std::intptr_t>(nanoseconds)), nullptr) == order.status
                 ? 0
                 : 1;
    };
    void* pointer = nullptr;
    switch (order.call) {
      case Call::reduce:
        return reduce_for(0);
      case Call::reduce_elsewhere:
        std::thread([&] { static_cast<void>(reduce_for(0)); }).join();
        return 0;
      case Call::pause:
        return reduce_for(kPause);
      case Call::hang:
        return reduce_for(3600 * std::int64_t{1'000'000'000});
      case Call::allocate:
        return functions.allocate(&pointer, order.bytes);
      case Call::gloo:
      case Call::gloo_throws:
        try {
          const GlooOptions options{.fails = order.call == Call::gloo_throws, .element_size = order.element_size};
          functions.gloo(reinterpret_cast<const gloo::AllreduceOptions&>(options));
        } catch (const std::exception&) {
          return 1;
        }
        return 0;
      case Call::work:
      case Call::work_that_throws:
        functions.work(order.call == Call::work_that_throws ? -1 : 0);
        return 0;
      case Call::work_side_by_side: {
        std::thread other([&] { functions.work(10 * kPause); });
        functions.work(10 * kPause);
        other.join();
        return 0;
      }
      case Call::step:
        return functions.backward();
      case Call::step_within:
        std::thread([&] {
          ::pthread_setname_np(::pthread_self(), "pt_autograd_0");
          static_cast<void>(functions.backward());
        }).join();
        return 0;
      case Call::map_header:
        return map_header();
      case Call::load:
      case Call::first_byte:
        break;
    }
    return 0;
  }

  Kept kept_;
  int order_[2]{}, report_[2]{};
  pid_t pid_ = -1;
};

class StackBench {
 public:
  explicit StackBench(int job, TraceWriter* trace = nullptr)
      : sink_(trace),
        sampler_(fs_, sink_, {.probes = {"stack"}, .job = JobSource{.pid = job}, .own_pid = ::getpid()}, now()) {
    sampler_.look_first();
  }
  void sample() { sampler_.sample({.time = now(), .number = 0}); }
  /// One that never comes costs patience, not the test.
  template <typename Condition>
  bool until(const Condition& condition) {
    for (int i = 0; i < 2000; ++i) {
      sample();
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  [[nodiscard]] std::int64_t value(const std::string& metric, const std::string& function) const {
    return value_of(metric, "rank0/" + function);
  }
  [[nodiscard]] std::int64_t value_of(const std::string& metric, const std::string& instance = "rank0") const {
    for (const Family& family : sink_.families()) {
      if (const std::int64_t found = family.value(metric, instance); found != kMissing) return found;
    }
    return kMissing;
  }
  bool steps(std::int64_t count) {
    return until([&] { return value_of("stack.steps") >= count; });
  }
  bool counts(const std::string& function, std::int64_t calls) {
    return until([&] { return value("stack.calls", function) >= calls; });
  }
  /// It may also be in a library that is looked into later.
  bool attached(const ToyProcess& toy, const std::string& function) {
    return until([&] {
      return (' ' + fact("stack.functions") + ' ').find(' ' + function + ' ') != std::string::npos &&
             toy.probed(function);
    });
  }
  [[nodiscard]] std::string fact(const std::string& key) const {
    for (const auto& [name, text] : sampler_.facts()) {
      if (name == key) return text;
    }
    return "";
  }
  [[nodiscard]] Coverage coverage() const { return sampler_.coverage().front(); }

 private:
  KernelTree fs_;
  TraceSink sink_;
  Sampler sampler_;
};

/// Nothing is timed then, and children are under it, too.
bool is_filtered() {
  return ::prctl(PR_GET_SECCOMP) != 0;
}

#define SKIP_WITHOUT_BPF(bench)                                                                   \
  if ((bench).coverage().state != Coverage::State::ok) GTEST_SKIP() << (bench).coverage().reason; \
  if (is_filtered()) GTEST_SKIP() << "the test runs under a seccomp filter"

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

// It counts the calls of a function of its own, by another thread, before it is there at all.
TEST(Stack, CountsByPerfEventsOnOlderKernels) {
  try {
    const CallCounters counters(4, CallCounters::Way::single);
    EXPECT_EQ(counters.way(), "perf uprobe");
    EXPECT_GT(counters.bias_ns(), 0);
    EXPECT_GT(counters.cost_ns({.clock = true}), 0);
    EXPECT_EQ(counters.calls(0), 0U);
    EXPECT_TRUE(counters.pending().empty());
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

bool has_marks(int pid) {
  constexpr std::string_view kWanted[] = {"python:gc__start"};
  const Descriptor file(::open(("/proc/" + std::to_string(pid) + "/exe").c_str(), O_RDONLY | O_CLOEXEC));
  return file && !find_marks(reader_of(file.get()), kWanted).marks.at(0).empty();
}

TEST(Stack, MeasuresThatPythonCollectsAndImports) {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() / "outer_one.py") << "import inner_one\n";
  std::ofstream(folder.path() / "inner_one.py") << "import time\ntime.sleep(.02)\nimport inner_two\n";
  std::ofstream(folder.path() / "inner_two.py") << "import not_there_at_all\n";
  const PythonProcess python(collecting_program(folder.path()));
  if (python.line() != "ready" || !has_marks(python.pid())) GTEST_SKIP() << "no python3 with marks for tracing";
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

std::vector<TrainingStep> steps_in(const std::filesystem::path& trace) {
  return TraceReader(trace).steps();
}

TraceHeader header_of_steps() {
  return {.node = "n01", .tool_version = "test", .interval = std::chrono::seconds(1)};
}

TEST(Stack, TellsWhenEveryStepBeganAndWhatItWaited) {
  constexpr int kWaited = 10;
  constexpr int kWithin = 5;
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  std::vector<std::int64_t> before;
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "torch.backward") && bench.attached(toy, "ncclAllReduce"));
    for (int step = 0; step < kWaited; ++step) {
      before.push_back(read_clock(CLOCK_MONOTONIC));
      EXPECT_EQ(toy.ask({.call = Call::step}), 0);
      EXPECT_EQ(toy.ask({.call = Call::step_within, .times = kWithin}), 0);  // parts of it
      EXPECT_EQ(toy.ask({.call = Call::pause}), 0);
    }
    EXPECT_EQ(toy.ask({.call = Call::step}), 0);
    before.push_back(read_clock(CLOCK_MONOTONIC));
    ASSERT_TRUE(bench.steps(kWaited + 1)) << bench.coverage().reason;
    EXPECT_EQ(bench.value_of("stack.steps"), kWaited + 1);
    EXPECT_EQ(bench.value("stack.calls", "torch.backward"), kWaited + 1);
    EXPECT_EQ(bench.coverage().reason, "");
    trace.close();
  }
  const std::vector<TrainingStep> steps = steps_in(directory.path() / "t.h5");
  ASSERT_EQ(steps.size(), static_cast<std::size_t>(kWaited));  // without the one under way
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].rank, "rank0");
    EXPECT_EQ(steps[i].number, static_cast<std::int64_t>(i) + 1);
    EXPECT_GT(steps[i].begin_ns, before[i]);
    EXPECT_LT(steps[i].begin_ns, before[i + 1]);
    EXPECT_EQ(steps[i].bytes, 2 * static_cast<std::int64_t>(kElements)) << i;
    const std::int64_t end = steps[i].begin_ns + steps[i].duration_ns;
    EXPECT_TRUE(i + 1 == steps.size() || end == steps[i + 1].begin_ns) << i;
    EXPECT_GE(steps[i].duration_ns, steps[i].waiting_ns);
    EXPECT_GE(steps[i].waiting_ns, kPause) << i;
  }
}

TEST(Stack, CountsTheStepsThatItHasNoRoomToList) {
  constexpr std::int64_t kSteps = 10'000;
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  std::size_t told = 0;
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "torch.backward"));
    EXPECT_EQ(toy.ask({.call = Call::step, .times = kSteps}), 0);
    ASSERT_TRUE(bench.steps(kSteps)) << bench.coverage().reason;
    EXPECT_EQ(bench.value_of("stack.steps"), kSteps);
    const std::string note = bench.coverage().reason;
    EXPECT_NE(note.find(" steps are counted and not listed: they followed each other too fast"), std::string::npos)
        << note;
    told = static_cast<std::size_t>(std::atoll(note.c_str()));
    trace.close();
  }
  const std::vector<TrainingStep> steps = steps_in(directory.path() / "t.h5");
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.size() + told + 1, static_cast<std::size_t>(kSteps));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const bool follows = steps[i].number == steps[i - 1].number + 1;
    EXPECT_GT(steps[i].number, steps[i - 1].number);
    EXPECT_EQ(steps[i - 1].duration_ns, follows ? steps[i].begin_ns - steps[i - 1].begin_ns : kMissing);
  }
}

/// A job of seventeen processes, as a collector recorded it, with the answers of the probe's child. Sixteen have a
/// place; the last one takes that of "slot1" once it works.
class CrowdedJob {
 public:
  static constexpr int kSeconds = 30;
  static constexpr int kBusyFrom = 12;  // it has its place within ten seconds

  explicit CrowdedJob(const std::function<std::string(int second)>& answer) {
    for (int pid = kFirst; pid <= kLast; ++pid) host_.process(pid, pid == kFirst ? 1 : kFirst, "train", 0, 0);
    host_.last_pid(kLast);
    record(answer);
    KernelTree fs(host_.root() / "record");
    const std::filesystem::path path = host_.root() / "t.h5";
    TraceWriter trace(path, header_of_steps());
    TraceSink sink(&trace);
    Sampler sampler(fs, sink, {.probes = {"stack"}, .job = JobSource{.pid = kFirst}}, time_of(0));
    sampler.look_first();
    trace.start();
    while (const auto time = fs.next_tick()) sampler.sample({.time = *time, .number = 0});
    coverage_ = sampler.coverage().front();
    trace.close();
    events_ = TraceReader(path).events();
  }

  [[nodiscard]] const Coverage& coverage() const { return coverage_; }
  [[nodiscard]] std::vector<std::string> why_steps_are_missing() const {
    std::vector<std::string> why;
    for (const Event& event : events_) {
      if (event.code == "steps_incomplete") why.push_back(event.text);
    }
    return why;
  }

 private:
  static constexpr int kFirst = 100;
  static constexpr int kLast = 116;

  static TickTime time_of(int second) { return {(second + 1) * kSecond, (second + 1'700'000'000) * kSecond}; }

  void record(const std::function<std::string(int second)>& answer) {
    KernelTree fs(host_.root());
    fs.limit_kept_files(0);  // plain files are written anew
    fs.record_to(host_.root() / "record");
    static_cast<void>(fs.fact("@stack/open", [] { return std::string("ok recorded"); }));
    TraceSink sink;
    Sampler sampler(fs, sink, {.probes = {"process"}, .job = JobSource{.pid = kFirst}}, time_of(0));
    sampler.look_first();
    for (int second = 1; second <= kSeconds; ++second) {
      if (second == kBusyFrom) host_.process(kLast, kFirst, "train", 5000, 0);
      fs.mark_tick(time_of(second));
      sampler.sample({.time = time_of(second), .number = 0});
      static_cast<void>(fs.fact("@stack", [&] { return answer(second); }));
    }
    fs.end_recording();
  }

  TestHost host_;
  Coverage coverage_;
  std::vector<Event> events_;
};

constexpr const char* kClockOnly = "functions torch.backward\n";

TEST(StackOfACrowdedJob, MissesNoStepsOfAProcessThatKeepsItsPlace) {
  const CrowdedJob job([](int second) { return kClockOnly + ("steps rank0 " + std::to_string(second) + '\n'); });
  EXPECT_EQ(job.coverage().state, Coverage::State::ok) << job.coverage().reason;
  EXPECT_TRUE(job.why_steps_are_missing().empty());
}

TEST(StackOfACrowdedJob, SaysThatAProcessWithStepsLostItsPlace) {
  const CrowdedJob job([](int) { return kClockOnly + std::string("steps slot1 7\n"); });
  EXPECT_EQ(job.why_steps_are_missing(),
            std::vector<std::string>{"a process that made some lost its place to a busier one"});
}

TEST(StackOfACrowdedJob, SaysThatAProcessWithStepsWaitedForItsPlace) {
  const CrowdedJob job([](int second) { return kClockOnly + std::string(second < 25 ? "" : "steps slot1 3\n"); });
  EXPECT_EQ(job.why_steps_are_missing(),
            std::vector<std::string>{"a process waited for a place before its calls were counted"});
}

TEST(StackOfACrowdedJob, SaysThatItHasMoreFunctionsThanAreMeasured) {
  const auto counts = [](int functions) {
    return [functions](int) {
      std::string text = kClockOnly;
      for (int i = 0; i < functions; ++i) text += "count rank0 f" + std::to_string(i) + " 5\n";
      return text;
    };
  };
  EXPECT_EQ(CrowdedJob(counts(512)).coverage().reason, "");
  EXPECT_EQ(CrowdedJob(counts(513)).coverage().reason, "only the first 512 functions of processes are measured");
}

TEST(Stack, NamesNoFunctionThatIsOff) {
  CallCounters* counters = nullptr;
  try {
    static CallCounters all(2 * stack_functions().size());
    counters = &all;
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
  CallLedger ledger(*counters, 4096);
  EXPECT_EQ(ledger.answer(), "functions\n");
  ledger.attached("rank0", step_function(), 0, false);
  EXPECT_EQ(ledger.answer(), "functions torch.backward\n");
  ledger.failed(0, "Permission denied");
  const std::string first(stack_functions().front().name);
  EXPECT_EQ(ledger.answer(), "functions torch.backward\nnote " + first + " is not measured: Permission denied\n");
  ledger.ended("rank0");
  ledger.attached("rank0", step_function(), 1, false);
  ledger.switch_off(step_function());
  EXPECT_TRUE(ledger.answer().starts_with("functions\n"));
}

// A step that began before all was attached has waited longer than was measured.
TEST(Stack, DoesNotGuessTheSumsOfStepsThatWereCountedInPart) {
  const ToyProcess toy;
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  try {
    CallCounters counters(stack_functions().size());
    CallLedger ledger(counters, 4096);
    std::vector<CallLink> links;
    const auto attach = [&](const char* library, std::string_view name) {
      const Descriptor file(::open((std::string(STACK_DOUBLES) + '/' + library).c_str(), O_RDONLY | O_CLOEXEC));
      const auto functions = stack_functions();
      const auto function = std::find_if(functions.begin(), functions.end(),
                                         [name](const StackFunction& each) { return each.name == name; });
      const auto index = static_cast<std::size_t>(function - functions.begin());
      const FoundFunctions found = find_functions(reader_of(file.get()), std::span(function->symbols).first(1));
      const CallCounters::Point point{.offset = found.offsets.at(0), .index = index};
      const CallShape shape = shape_of(*function, true);
      CallCounters::Attached attached = counters.attach(file.get(), toy.pid(), shape, std::span(&point, 1));
      ASSERT_EQ(attached.error, 0);
      std::move(attached.links.begin(), attached.links.end(), std::back_inserter(links));
      ledger.attached("rank0", index, 0, shape.timed);
    };
    attach("libtorch_cpu.so", "torch.backward");
    attach("libnccl.so.2", "ncclAllReduce");
    const auto make_steps = [&toy](int steps) {
      for (int step = 0; step < steps; ++step) {
        EXPECT_EQ(toy.ask({.call = Call::step}) + toy.ask({.call = Call::reduce}), 0);
      }
    };
    ledger.delay("rank0", true);
    make_steps(2);
    EXPECT_NE(ledger.answer().find("note not all functions are attached yet"), std::string::npos);
    make_steps(1);
    ledger.delay("rank0", false);
    make_steps(2);
    const std::string answer = ledger.answer();
    EXPECT_EQ(answer.find("not all functions"), std::string::npos) << answer;
    std::vector<std::string> sums;
    std::string_view rest = answer;
    std::string_view line;
    while (next_line(rest, line)) {
      if (line.starts_with("step rank0 ")) sums.emplace_back(line.substr(line.rfind(' ')));
    }
    EXPECT_EQ(sums, (std::vector<std::string>{" -", " -", " 2000"})) << answer;  // 2 and 3 of steps 1 to 4
  } catch (const Unavailable& why) {
    GTEST_SKIP() << why.what();
  }
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

TEST(Stack, DetachesWhatCostsTheJobTooMuch) {
  const ToyProcess toy;
  StackBench bench(toy.pid());
  SKIP_WITHOUT_BPF(bench);
  ASSERT_EQ(toy.ask({.call = Call::load}), 0);
  ASSERT_TRUE(bench.attached(toy, "cudaMalloc") && bench.attached(toy, "ncclAllReduce"));
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 5, .bytes = 1}), 0);
  // A fifth of a second at least: .05 s may be spent at once.
  EXPECT_EQ(toy.ask({.call = Call::reduce, .times = 200'000}), 0);
  const auto noted = [&] {
    return bench.coverage().reason.find("ncclAllReduce was detached: counting ") != std::string::npos &&
           bench.fact("stack.functions").find("ncclAllReduce") == std::string::npos;
  };
  ASSERT_TRUE(bench.until(noted)) << bench.coverage().reason;
  EXPECT_FALSE(toy.probed());
  ASSERT_TRUE(bench.counts("cudaMalloc", 5));
  EXPECT_EQ(bench.value("stack.calls", "ncclAllReduce"), kMissing);
  EXPECT_EQ(toy.ask({.call = Call::allocate, .times = 5, .bytes = 1}), 0);
  ASSERT_TRUE(bench.counts("cudaMalloc", 10));
}

TEST(Stack, SaysThatStepsWereMissedSinceTheirCountingWasDetached) {
  const TemporaryDirectory directory;
  TraceWriter trace(directory.path() / "t.h5", header_of_steps());
  {
    const ToyProcess toy;
    StackBench bench(toy.pid(), &trace);
    SKIP_WITHOUT_BPF(bench);
    trace.start();
    ASSERT_EQ(toy.ask({.call = Call::load}), 0);
    ASSERT_TRUE(bench.attached(toy, "torch.backward"));
    EXPECT_EQ(toy.ask({.call = Call::step, .times = 5}), 0);
    ASSERT_TRUE(bench.steps(5));
    EXPECT_EQ(toy.ask({.call = Call::step, .times = 300'000}), 0);
    ASSERT_TRUE(bench.until([&] {
      return bench.coverage().reason.find("torch.backward was detached: counting ") != std::string::npos;
    })) << bench.coverage().reason;
    bench.sample();
    trace.close();
  }
  const std::vector<Event> events = TraceReader(directory.path() / "t.h5").events();
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.object == "probe stack" && event.code == "steps_incomplete";
  }));
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
