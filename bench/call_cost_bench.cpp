// The delay of a call that is counted, for each way to attach and each kind of function, beside the same call without a
// probe; and how long attaching to the functions of a rank and detaching them takes, one by one and together, here and
// behind the call server of a Slurm job. Needs root, or CAP_BPF and CAP_PERFMON; for the call server, root.
//   build/release/bin/call_cost_bench [ROUNDS]
// Exit status 1 where nothing could be measured.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/stack/bpf_programs.h"
#include "core/stack/call_broker.h"
#include "core/stack/call_counters.h"
#include "core/stack/call_server.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/request_socket.h"
#include "hdf5schema/basics/text.h"

// The function on which the collector measures the cost, too (core/stack/call_counters.cpp). It reads no argument: the
// programs find those that they look for.
extern "C" int reveal_calibrated_call(const void* options, std::size_t bytes, std::size_t count, int type,
                                      int operation, const void* communicator);

// The functions of a rank, which nobody calls: each one has sixteen bytes.
#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .globl reveal_functions_of_rank
  .hidden reveal_functions_of_rank
reveal_functions_of_rank:
  .rept 26
  pushq %rbp
  popq %rbp
  xorl %eax, %eax
  ret
  .p2align 4
  .endr
  .globl reveal_end_of_functions
  .hidden reveal_end_of_functions
reveal_end_of_functions:
)");
extern "C" char reveal_functions_of_rank;
extern "C" char reveal_end_of_functions;
#else
char reveal_functions_of_rank = 0;  // nothing is measured there
char reveal_end_of_functions = 0;
#endif

namespace reveal {
namespace {

constexpr std::size_t kBytesOfFunction = 16;
constexpr const char* kJob = "4711";

constexpr int kCalls = 1000;
constexpr int kMissedOnce = 1;  // the first round, in which programs are loaded, is not counted

/// A function of the table with each kind of work in the kernel.
struct MeasuredKind {
  const char* name;
  std::string_view function;
  bool timed;
};
constexpr MeasuredKind kKinds[] = {
    {"counted", "MPI_Send", false},
    {"counted with bytes", "cudaMalloc", false},
    {"timed", "cudaFree", true},
    {"timed with bytes", "cudaMalloc", true},
    {"step of a training", "torch.backward", false},
    {"collective of gloo", "gloo.allreduce", false},
    {"its thread, timed", "c10d.work", true},
    {"collective of NCCL, timed", "ncclAllReduce", true},
};

/// Options of an all-reduce as gloo has them: the context first, the number of elements and their size at 80 bytes.
constexpr std::array<std::uint64_t, 2> kContext = {0, std::uint64_t{2} << 32U};  // rank 0 of 2
std::array<std::uint64_t, 16> options_of_gloo() {
  std::array<std::uint64_t, 16> options{};
  options[0] = reinterpret_cast<std::uintptr_t>(kContext.data());
  options[10] = 1000;
  options[11] = 4;
  return options;
}

double ns_per_call() {
  static const std::array<std::uint64_t, 16> options = options_of_gloo();
  constexpr std::size_t kBytes = 4096;
  constexpr std::size_t kElements = 512;
  constexpr int kFloat32 = 7;
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  for (int i = 0; i < kCalls; ++i) {
    static_cast<void>(reveal_calibrated_call(options.data(), kBytes, kElements, kFloat32, 0, options.data()));
  }
  return static_cast<double>(read_clock(CLOCK_MONOTONIC) - begin) / kCalls;
}

struct Calibrated {
  Descriptor program;
  std::uint64_t offset = 0;
};

/// The place of code in the file of this program. Throws Unavailable.
Calibrated place_of(std::uintptr_t address) {
  Calibrated found{.program = Descriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC))};
  const std::string maps = file_text("/proc/self/maps");
  std::string_view rest = maps;
  std::string_view line;
  while (next_line(rest, line)) {
    const auto range = parse_mapping(line);
    if (range && address >= range->begin && address < range->end) found.offset = address - range->begin + range->offset;
  }
  if (!found.program || found.offset == 0) throw Unavailable("the program cannot be read");
  return found;
}

struct Series {
  std::vector<double> without_ns, with_ns, delay_ns, attach_ms, detach_ms;
};

double milliseconds_since(std::int64_t begin) {
  return static_cast<double>(read_clock(CLOCK_MONOTONIC) - begin) * 1e-6;
}

/// One round of one kind.
void measure(CallCounters& counters, const Calibrated& called, const MeasuredKind& kind, Series& series) {
  const auto functions = stack_functions();
  const auto function = std::find_if(functions.begin(), functions.end(),
                                     [&kind](const StackFunction& each) { return each.name == kind.function; });
  if (function == functions.end()) throw Unavailable("the table has no " + std::string(kind.function));
  const CallPoint point{.offset = called.offset, .index = static_cast<std::size_t>(function - functions.begin())};
  const double without = ns_per_call();
  counters.reset(0, functions.size());
  std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  CallCounters::Attached attached =
      counters.attach(called.program.get(), ::getpid(), shape_of(*function, kind.timed), std::span(&point, 1));
  series.attach_ms.push_back(milliseconds_since(begin));
  if (attached.error != 0) throw Unavailable(std::string("it is refused: ") + std::strerror(attached.error));
  const double with = ns_per_call();
  begin = read_clock(CLOCK_MONOTONIC);
  attached.links.detach();
  series.detach_ms.push_back(milliseconds_since(begin));
  const std::uint64_t counted = counters.calls(point.index);
  if (counted != kCalls) {
    throw Unavailable(std::to_string(counted) + " of " + std::to_string(kCalls) + " calls were counted");
  }
  series.without_ns.push_back(without);
  series.with_ns.push_back(with);
  series.delay_ns.push_back(with - without);
}

double quantile(std::vector<double> values, std::size_t percent) {
  values.erase(values.begin(), values.begin() + kMissedOnce);
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) * percent / 100];
}

/// Throws Unavailable.
void measure_way(CallCounters::Way way, int rounds) {
  const Calibrated called = place_of(reinterpret_cast<std::uintptr_t>(&reveal_calibrated_call));
  CallCounters counters(stack_functions().size(), way);
  if ((way == CallCounters::Way::multi) != counters.is_multi()) throw Unavailable("it does not count correctly here");
  std::array<Series, std::size(kKinds)> all;
  for (int round = 0; round < rounds + kMissedOnce; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) measure(counters, called, kKinds[i], all[i]);
  }
  std::printf("\n%s, medians of %d rounds of %d calls\n\n", std::string(counters.way()).c_str(), rounds, kCalls);
  std::printf("%-26s %12s %12s %9s %16s %10s %10s\n", "kind of function", "ns without", "ns with it", "delay",
              "(10 to 90 %)", "attach ms", "detach ms");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Series& each = all[i];
    std::printf("%-26s %12.1f %12.0f %9.0f %6.0f to %6.0f %10.2f %10.2f\n", kKinds[i].name,
                quantile(each.without_ns, 50), quantile(each.with_ns, 50), quantile(each.delay_ns, 50),
                quantile(each.delay_ns, 10), quantile(each.delay_ns, 90), quantile(each.attach_ms, 50),
                quantile(each.detach_ms, 50));
  }
  const CallCosts& costs = counters.costs();
  std::printf(
      "\nthe collector's own calibration: counted %.0f ns, timed %.0f, step %.0f, collective %.0f more; %.0f of "
      "the timed ones are in the measured duration\n",
      costs.entry_ns, costs.timed_ns, costs.clock_ns, costs.recording_ns, costs.bias_ns);
}

/// A process that does nothing.
class Rank {
 public:
  Rank()
      : child_(fork_child([] {
          while (true) ::pause();
          return 0;
        })) {}
  ~Rank() { child_.kill(std::chrono::seconds(10)); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  [[nodiscard]] pid_t pid() const noexcept { return child_.pid(); }

 private:
  ChildProcess child_;
};

/// The control group of a job.
class JobGroup {
 public:
  /// Throws Unavailable.
  JobGroup() {
    for (const std::string mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (::access((mount + "/cgroup.controllers").c_str(), R_OK) == 0) scope_ = mount;
    }
    if (scope_.empty()) throw Unavailable("there are no control groups of version 2");
    scope_ += "/reveal-bench-" + std::to_string(::getpid()) + "_slurmstepd.scope";
    std::error_code error;
    std::filesystem::create_directories(step(), error);
  }
  ~JobGroup() {
    std::error_code error;
    for (const std::string& folder : {step(), job(), scope_}) std::filesystem::remove(folder, error);
  }
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;
  /// Throws Unavailable.
  void take_in(pid_t process) const {
    if (!(std::ofstream(step() + "/cgroup.procs") << process << std::flush)) {
      throw Unavailable("no control group can be made");
    }
  }

 private:
  [[nodiscard]] std::string job() const { return scope_ + "/job_" + kJob; }
  [[nodiscard]] std::string step() const { return job() + "/step_0"; }

  std::string scope_;
};

enum class Together : bool { no, yes };

/// `count`: of the functions of the rank. Throws Unavailable.
void measure_rank(CallCounters& counters, const char* where, pid_t rank, std::size_t count, Together together,
                  int rounds) {
  constexpr std::chrono::milliseconds kKernelForgets(60);  // that it has waited for all cpus
  const Calibrated first = place_of(reinterpret_cast<std::uintptr_t>(&reveal_functions_of_rank));
  std::vector<CallPoint> points;
  for (std::size_t i = 0; i < stack_functions().size() && points.size() < count; ++i) {
    if (stack_functions()[i].ending == Ending::between_marks) continue;
    points.push_back({.offset = first.offset + kBytesOfFunction * points.size(), .index = i});
  }
  std::vector<CallCounters::Function> functions;
  functions.reserve(points.size());
  for (const CallPoint& point : points) {
    functions.push_back({.shape = shape_of(stack_functions()[point.index], true), .points = std::span(&point, 1)});
  }
  Series series;
  for (int round = 0; round < rounds + kMissedOnce; ++round) {
    std::this_thread::sleep_for(kKernelForgets);
    std::vector<CallCounters::Attached> attached;
    std::int64_t begin = read_clock(CLOCK_MONOTONIC);
    if (together == Together::yes) {
      attached = counters.attach(first.program.get(), rank, functions);
    } else {
      for (const CallCounters::Function& each : functions) {
        attached.push_back(counters.attach(first.program.get(), rank, each.shape, each.points));
      }
    }
    series.attach_ms.push_back(milliseconds_since(begin));
    CallLinks all;
    begin = read_clock(CLOCK_MONOTONIC);
    for (CallCounters::Attached& each : attached) {
      if (each.error != 0) throw Unavailable(std::string("it is refused: ") + std::strerror(each.error));
      all.add(std::move(each.links));
      if (together == Together::no) all.detach();
    }
    all.detach();
    series.detach_ms.push_back(milliseconds_since(begin));
  }
  std::printf("%-26s %9zu %12s %5.1f (%.1f to %.1f) %10.0f\n", where, functions.size(),
              together == Together::yes ? "together" : "one by one", quantile(series.attach_ms, 50),
              quantile(series.attach_ms, 10), quantile(series.attach_ms, 90), quantile(series.detach_ms, 50));
}

/// Throws Unavailable.
void measure_ranks(CallCounters& counters, const char* where, pid_t rank, int rounds) {
  constexpr int kRoundsOneByOne = 5;  // each takes seconds
  const std::size_t all = (reinterpret_cast<std::uintptr_t>(&reveal_end_of_functions) -
                           reinterpret_cast<std::uintptr_t>(&reveal_functions_of_rank)) /
                          kBytesOfFunction;
  measure_rank(counters, where, rank, 1, Together::yes, rounds);
  measure_rank(counters, where, rank, all, Together::yes, rounds);
  measure_rank(counters, where, rank, all, Together::no, std::min(rounds, kRoundsOneByOne));
}

/// How long attaching to a rank takes. Throws Unavailable.
void measure_attaching(int rounds) {
  std::printf("\n%-26s %9s %12s %s %10s\n", "a rank", "functions", "", "attach ms (10 to 90 %)", "detach ms");
  for (const auto& [name, way] :
       {std::pair("multi-uprobe", CallCounters::Way::multi), std::pair("perf uprobe", CallCounters::Way::single)}) {
    const Rank rank;
    CallCounters counters(stack_functions().size(), way);
    if ((way == CallCounters::Way::multi) == counters.is_multi()) measure_ranks(counters, name, rank.pid(), rounds);
  }
  const JobGroup group;
  const Rank rank;  // ends before its group
  group.take_in(rank.pid());
  RequestSockets sockets = make_request_sockets();
  ChildProcess server = fork_child([&sockets] {
    sockets.sampler.close();
    return serve_call_requests(sockets.broker.get(), kJob, {.attaching = 600});
  });
  sockets.broker.close();
  {
    CallCounters counters(stack_functions().size(),
                          std::make_unique<CallBroker>(std::move(sockets.sampler), stack_functions().size()));
    measure_ranks(counters, "behind the call server", rank.pid(), rounds);
  }
  server.wait();
}

}  // namespace
}  // namespace reveal

int main(int argc, char** argv) {
  using Way = reveal::CallCounters::Way;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 30;
  bool measured = false;
  for (const auto& [name, way] : {std::pair("multi-uprobe", Way::multi), std::pair("perf uprobe", Way::single)}) {
    try {
      reveal::measure_way(way, rounds);
      measured = true;
    } catch (const reveal::Unavailable& why) {
      std::printf("\n%s: not measured, because %s\n", name, why.what());
    }
  }
  try {
    ::signal(SIGIO, SIG_IGN);  // the call server is no broker
    reveal::measure_attaching(rounds);
  } catch (const reveal::Unavailable& why) {
    std::printf("attaching to a rank: not measured, because %s\n", why.what());
  }
  return measured ? EXIT_SUCCESS : EXIT_FAILURE;
}
