// A process that calls the doubles of the software stack when it is told to, and the probe on it.
#pragma once

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

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/core/live_probe.h"
#include "tests/unit/core/replaced_code.h"
#include "tests/unit/core/sample_until.h"
#include "tests/unit/core/test_host.h"

namespace gloo {
struct AllreduceOptions;  // defined by the doubles
}

namespace reveal::tests::toy {

inline constexpr std::size_t kElements = 1000;
inline constexpr int kBfloat16 = 9;
inline constexpr std::int64_t kPause = 20'000'000;  // ns
inline constexpr int kReplacedStatus = 9;

/// As the double of gloo has them.
struct GlooContext {
  const void* methods = nullptr;
  int rank = 0, size = 0;
};
struct GlooOptions {
  const GlooContext* context = nullptr;
  bool fails = false;
  char buffers[71]{};
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
    make_communicator,
    reduce_on,
    reduce_on_by_threads,
    reduce_to_one,
    end_communicator,
    gloo_on,
    replace,
    begin_profile,
    end_profile,
    first_byte
  };
  Call call = Call::load;
  int times = 1;
  int status = 0;                            // that the calls return
  int type = kBfloat16;                      // type of the elements
  std::size_t bytes = 0;                     // to allocate
  std::size_t element_size = sizeof(float);  // that gloo moves
  std::size_t elements = kElements;
  std::uintptr_t communicator = 0;  // also the nanoseconds that a reduction takes
  int rank = 0, ranks = 0;          // to make a communicator
  unsigned char id = 0;             // the rest of its id
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
  struct UniqueId {
    unsigned char bytes[128];
  };
  using ReduceToOne = int (*)(const void*, void*, std::size_t, int, int, int, void*, void*);
  using MakeCommunicator = int (*)(void**, int, UniqueId, int);
  using EndCommunicator = int (*)(void*);
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
    ReduceToOne reduce_to_one = nullptr;
    MakeCommunicator make_communicator = nullptr;
    EndCommunicator end_communicator = nullptr;
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
                         "EEbbbS7_")),
                     reinterpret_cast<ReduceToOne>(symbol("libnccl.so.2", "ncclReduce")),
                     reinterpret_cast<MakeCommunicator>(symbol("libnccl.so.2", "ncclCommInitRank")),
                     reinterpret_cast<EndCommunicator>(symbol("libnccl.so.2", "ncclCommDestroy"))};
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

  static int reduce_instead(const void* /*send*/, void* /*receive*/, std::size_t /*count*/, int /*type*/, int /*op*/,
                            void* /*comm*/, void* /*stream*/) {
    return kReplacedStatus;
  }
  /// From now on a call goes to reduce_instead().
  static int replace(Reduce function) {
    const auto other = reinterpret_cast<std::uintptr_t>(&reduce_instead);
    return replace_code(reinterpret_cast<std::uintptr_t>(function), other) ? 0 : 1;
  }

  /// Communicators are numbers here.
  static int call_on_communicator(const Order& order, const Functions& functions) {
    void* communicator = reinterpret_cast<void*>(order.communicator);
    const auto reduce = [&] {
      return functions.reduce(nullptr, nullptr, order.elements, order.type, 0, communicator, nullptr);
    };
    switch (order.call) {
      case Call::make_communicator: {
        UniqueId id{};
        id.bytes[0] = static_cast<unsigned char>(order.communicator);
        id.bytes[8] = order.id;
        return functions.make_communicator(&communicator, order.ranks, id, order.rank);
      }
      case Call::reduce_on:
        return reduce();
      case Call::reduce_on_by_threads: {
        constexpr int kThreads = 8;
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i) {
          threads.emplace_back([&] { static_cast<void>(reduce()); });
        }
        for (std::thread& thread : threads) thread.join();
        return 0;
      }
      case Call::reduce_to_one:
        return functions.reduce_to_one(nullptr, nullptr, order.elements, order.type, 0, 0, communicator, nullptr);
      case Call::end_communicator:
        return functions.end_communicator(communicator);
      case Call::gloo_on: {
        const GlooContext context{.rank = order.rank, .size = order.ranks};
        const GlooOptions options{
            .context = order.communicator == 0 ? &context : reinterpret_cast<const GlooContext*>(order.communicator),
            .elements = order.elements};
        functions.gloo(reinterpret_cast<const gloo::AllreduceOptions&>(options));
        return 0;
      }
      default:
        return 0;
    }
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
      case Call::replace:
        return replace(functions.reduce);
      case Call::begin_profile:  // as if it had started the program of that name
        return ::prctl(PR_SET_NAME, "perf");
      case Call::end_profile:
        return ::prctl(PR_SET_NAME, "train");
      case Call::make_communicator:
      case Call::reduce_on:
      case Call::reduce_on_by_threads:
      case Call::reduce_to_one:
      case Call::end_communicator:
      case Call::gloo_on:
        return call_on_communicator(order, functions);
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
  void sample() {
    TickTime time = now();
    time.monotonic_ns += ahead_ns_;
    time.utc_ns += ahead_ns_;
    sampler_.sample({.time = time, .number = 0});
  }
  /// So much time passes for the probe, and for nothing else.
  void pass(std::int64_t ns) { ahead_ns_ += ns; }
  template <typename Condition>
  bool until(const Condition& condition) {
    return sample_until(*this, condition);
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
  [[nodiscard]] const TraceSink& sink() const { return sink_; }

 private:
  KernelTree fs_;
  TraceSink sink_;
  Sampler sampler_;
  std::int64_t ahead_ns_ = 0;
};

/// Nothing is timed then, and children are under it, too.
inline bool is_filtered() {
  return ::prctl(PR_GET_SECCOMP) != 0;
}

#define SKIP_WITHOUT_BPF(bench)                                                                   \
  if ((bench).coverage().state != Coverage::State::ok) GTEST_SKIP() << (bench).coverage().reason; \
  if (is_filtered()) GTEST_SKIP() << "the test runs under a seccomp filter"

}  // namespace reveal::tests::toy
