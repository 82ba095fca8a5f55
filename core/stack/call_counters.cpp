#include "core/stack/call_counters.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <thread>

#include "core/stack/probed_process.h"
#include "core/stack/process_maps.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

// The private function on which the cost of a hit is measured; it begins as most of those of the table do.
#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .globl reveal_calibrated_call
  .hidden reveal_calibrated_call
  .type reveal_calibrated_call, @function
reveal_calibrated_call:
  pushq %rbp
  popq %rbp
  xorl %eax, %eax
  ret
  .size reveal_calibrated_call, . - reveal_calibrated_call
)");
extern "C" int reveal_calibrated_call(const void* options);
#else
extern "C" int reveal_calibrated_call(const void* /*options*/) {
  return 0;
}
#endif

namespace reveal {
namespace {

#if defined(__x86_64__)
constexpr bool kKnownMachine = true;
#else
constexpr bool kKnownMachine = false;
#endif

constexpr std::uint32_t kMostPending = 4096;  // calls under way at once
constexpr std::uint64_t kTrials = 1000;
constexpr std::uint64_t kTurn = 100;

// Newer than the headers of the oldest system that this is built on.
constexpr std::uint32_t kUprobeMulti = 48;       // BPF_TRACE_UPROBE_MULTI, since Linux 6.6
constexpr std::uint32_t kUprobeMultiReturn = 1;  // BPF_F_UPROBE_MULTI_RETURN

/// BPF_LINK_CREATE of many places of one file.
struct MultiLink {
  std::uint32_t program = 0, target = 0, attach_type = kUprobeMulti, flags = 0;
  std::uint64_t path = 0, offsets = 0, reference_counters = 0, cookies = 0;
  std::uint32_t count = 0, multi_flags = 0, pid = 0, unused = 0;
};
/// The same of one perf event.
struct PerfLink {
  std::uint32_t program = 0, event = 0, attach_type = BPF_PERF_EVENT, flags = 0;
  std::uint64_t cookie = 0;
};

std::uint64_t address_of(const void* object) {
  return reinterpret_cast<std::uintptr_t>(object);
}

template <typename Attributes>
int bpf(int command, Attributes& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

Descriptor create_map(std::uint32_t type, std::uint32_t key, std::uint32_t value, std::uint32_t entries,
                      std::uint32_t flags) {
  bpf_attr attributes{};
  attributes.map_type = type;
  attributes.key_size = key;
  attributes.value_size = value;
  attributes.max_entries = entries;
  attributes.map_flags = flags;
  return Descriptor(bpf(BPF_MAP_CREATE, attributes));
}

Descriptor load_program(const std::vector<bpf_insn>& code, std::uint32_t attach_type) {
  // The clock is for programs under a licence that is compatible with the kernel's.
  static constexpr char kLicence[] = "Dual MIT/GPL";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_KPROBE;
  attributes.expected_attach_type = attach_type;
  attributes.insns = address_of(code.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
  attributes.license = address_of(kLicence);
  std::memcpy(attributes.prog_name, "reveal_stack", sizeof "reveal_stack");
  return Descriptor(bpf(BPF_PROG_LOAD, attributes));
}

std::string why_refused(const char* what, int error) {
  if (error == EPERM || error == EACCES) {
    return std::string(what) + " is refused: it needs root, or CAP_BPF and CAP_PERFMON";
  }
  return std::string(what) + " is refused (" + std::strerror(error) + ')';
}

std::optional<std::int64_t> number_in(const char* path) {
  const std::string text = file_text(path);
  std::string_view rest = text;
  return parse_int(next_word(rest));
}

/// The kernel numbers processes as the first namespace of the machine does, /proc as ours.
bool numbers_are_ours() {
  constexpr ino_t kFirstNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == kFirstNamespace;
}

/// True if the thread ended inside the call. The end of a whole process is found by other means.
bool thread_ended(const PendingCall& call) {
  static const bool known = numbers_are_ours();
  if (!known) return false;
  const std::string process = "/proc/" + std::to_string(call.pid_tgid >> 32U);
  const std::string thread = process + "/task/" + std::to_string(call.pid_tgid & 0xffff'ffffU);
  return ::access(thread.c_str(), F_OK) != 0 && ::access(process.c_str(), F_OK) == 0;
}

/// Some descriptors stay free: without one for the files of /proc, each process seems to have ended. Besides, Linux 6.6
/// to 6.11 use memory that they have freed if none is left for a link. https://nvd.nist.gov/vuln/detail/CVE-2024-47675
bool has_room_for_a_link(int file) {
  constexpr rlim_t kSpare = 16;
  rlimit limit{};
  const Descriptor lowest(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  return lowest && ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         static_cast<rlim_t>(lowest.get()) + kSpare < limit.rlim_cur;
}

/// The offset of a function in this program's file; 0 if that cannot be determined.
std::uint64_t own_offset(std::uint64_t address) {
  const std::string maps = file_text("/proc/self/maps");
  std::string_view rest = maps;
  std::string_view line;
  while (next_line(rest, line)) {
    const auto range = parse_mapping(line);
    if (range && address >= range->begin && address < range->end) return address - range->begin + range->offset;
  }
  return 0;
}

std::uint64_t offset_of_private_function() {
  return own_offset(reinterpret_cast<std::uintptr_t>(&reveal_calibrated_call));
}

/// Throws Unavailable.
template <typename Value>
Descriptor create_array(std::size_t places) {
  if (!kKnownMachine) throw Unavailable("the cost of probing instructions is known only for x86-64");
  static_assert(sizeof(Value) % sizeof(std::uint64_t) == 0, "the kernel puts them side by side");
  Descriptor map = create_map(BPF_MAP_TYPE_ARRAY, sizeof(std::uint32_t), static_cast<std::uint32_t>(sizeof(Value)),
                              static_cast<std::uint32_t>(places), BPF_F_MMAPABLE);
  if (!map) throw Unavailable(why_refused("BPF", errno));
  return map;
}

// At least one process fits.
std::size_t whole_places(std::size_t places) {
  return std::max(places, stack_functions().size());
}
std::size_t processes_in(std::size_t places) {
  return whole_places(places) / stack_functions().size();
}

constexpr std::uint32_t kMostMembers = 1U << 22U;

/// Nothing of an entry that is not written yet.
std::optional<CallCounters::Communicator::Call> call_of(std::uint64_t entry) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48U;
  const std::uint64_t number = entry & ((std::uint64_t{1} << CommunicatorCalls::kSizeShift) - 1);
  const std::uint64_t bytes = entry >> CommunicatorCalls::kSizeShift;
  if (number == 0 || number > stack_functions().size()) return std::nullopt;
  return CallCounters::Communicator::Call{.function = static_cast<std::size_t>(number - 1),
                                          .bytes = bytes < kMostBytes ? std::optional(bytes) : std::nullopt};
}

std::atomic<std::int64_t> helpers_cpu_ns = 0;  // processor time of threads of side_by_side()

/// Calls `close` for each number below `count`, in this thread and some more: the kernel lets all that wait at once go
/// on together. There are few, as they count for the user's limit of processes.
template <typename Close>
void side_by_side(std::size_t count, const Close& close) noexcept {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) close(i);
  };
  std::array<std::thread, CallQuestion::kMostLinks - 1> helpers;
  try {
    for (std::size_t i = 0; i < helpers.size() && i + 1 < count; ++i) {
      helpers[i] = std::thread([&work] {
        work();
        helpers_cpu_ns += read_clock(CLOCK_THREAD_CPUTIME_ID);
      });
    }
  } catch (const std::exception&) {  // no memory, or no more threads: those that there are do all of it
  }
  work();
  for (std::thread& helper : helpers) {
    if (helper.joinable()) helper.join();
  }
}

constexpr CallShape kEntryOnly{};
constexpr CallShape kTimed{.timed = true};
constexpr CallShape kClock{.clock = true};
constexpr CallShape kRecorded{.communicator = kInOptions};

/// The begin of options as gloo has them, for the calls by which the cost is measured.
constexpr std::uint64_t kCalibratedContext[] = {0, 0};
constexpr const std::uint64_t* kCalibratedOptions[] = {kCalibratedContext};

}  // namespace

void CallLinks::add(CallLinks&& more) {
  std::move(more.files_.begin(), more.files_.end(), std::back_inserter(files_));
  more.files_.clear();
  std::move(more.events_.begin(), more.events_.end(), std::back_inserter(events_));
  more.events_.clear();
  numbers_.insert(numbers_.end(), more.numbers_.begin(), more.numbers_.end());
  more.numbers_.clear();
  if (more.broker_ != nullptr) broker_ = more.broker_;
}

void CallLinks::detach() noexcept {
  std::vector<Descriptor> files = std::exchange(files_, {});
  side_by_side(files.size(), [&files](std::size_t i) { files[i].close(); });
  events_.clear();
  const std::vector<std::uint64_t> numbers = std::exchange(numbers_, {});
  if (!numbers.empty()) broker_->detach(numbers);
}

void close_call_links(void (*closed)() noexcept) noexcept {
  side_by_side(static_cast<std::size_t>(most_descriptors()), [closed](std::size_t number) {
    const int file = static_cast<int>(number);
    std::array<char, 32> path{};
    std::array<char, 32> name{};
    std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", file);
    const ssize_t length = ::readlink(path.data(), name.data(), name.size());
    const std::string_view kind(name.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    if (!kind.starts_with("anon_inode:bpf") && !kind.starts_with("anon_inode:[perf_event]")) return;
    ::close(file);
    if (closed != nullptr) closed();
  });
}

template <typename Value>
CallCounters::SharedArray<Value>::SharedArray(Descriptor map, std::size_t places) : map_(std::move(map)) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes_ = (places * sizeof(Value) + page - 1) / page * page;
  void* shared = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, map_.get(), 0);
  if (shared == MAP_FAILED) throw Unavailable(why_refused("sharing memory with BPF", errno));
  values_ = {static_cast<Value*>(shared), places};
}

CallCounters::CallCounters(std::size_t places, Way cheapest)
    : counts_(create_array<CallCounts>(whole_places(places)), whole_places(places)),
      steps_(create_array<StepRing>(processes_in(places)), processes_in(places)),
      pending_(create_map(BPF_MAP_TYPE_HASH, sizeof(PendingCall), sizeof(PendingBegin), kMostPending, 0)) {
  if (!pending_) throw Unavailable(why_refused("a BPF map", errno));
  std::string problem = try_way(cheapest);
  if (!problem.empty() && cheapest == Way::multi) problem = try_way(Way::single);
  if (!problem.empty()) throw Unavailable(problem);
}

CallCounters::CallCounters(std::size_t places, std::unique_ptr<CallBroker> broker)
    : broker_(std::move(broker)),
      counts_(std::move(broker_->opened().counts), whole_places(places)),
      steps_(std::move(broker_->opened().steps), processes_in(places)),
      way_(broker_->opened().multi ? Way::multi : Way::single),
      costs_(broker_->opened().costs) {}

CallCounters::~CallCounters() = default;

std::int64_t CallCounters::cpu_ns() const noexcept {
  return read_clock(CLOCK_THREAD_CPUTIME_ID) + helpers_cpu_ns.load() + (broker_ ? broker_->cpu_ns() : 0);
}

void CallCounters::let_go() noexcept {
  if (broker_) {
    broker_->hang_up();
  } else {
    close_call_links();
  }
}

std::string_view CallCounters::way() const noexcept {
  return way_ == Way::multi ? "multi-uprobe" : "perf uprobe";
}

const CallCounters::Programs* CallCounters::programs_of(const CallShape& shape) {
  const auto known = programs_.find(shape);
  if (known != programs_.end()) return &known->second;
  if (!has_room_for_a_link(counts_.map())) {
    errno = EMFILE;
    return nullptr;
  }
  const CallMaps maps = this->maps();
  const std::uint32_t type = way_ == Way::multi ? kUprobeMulti : 0;
  Programs programs{.entry = load_program(entry_program(shape, maps), type), .exit = {}};
  if (programs.entry && shape.timed) programs.exit = load_program(return_program(shape, maps), type);
  if (!programs.entry || (shape.timed && !programs.exit)) return nullptr;
  return &programs_.emplace(shape, std::move(programs)).first->second;
}

int CallCounters::attach_all(int file, pid_t pid, int program, When when, std::span<const Point> points,
                             CallLinks& links) const {
  if (points.empty()) return 0;
  const bool at_return = when == When::at_return;
  const std::string path = "/proc/self/fd/" + std::to_string(file);  // the file that was looked into, no other
  if (way_ == Way::multi) {
    if (!has_room_for_a_link(file)) return EMFILE;
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint64_t> cookies;
    std::vector<std::uint64_t> counters;
    offsets.reserve(points.size());
    cookies.reserve(points.size());
    counters.reserve(points.size());
    for (const Point& point : points) {
      offsets.push_back(point.offset);
      cookies.push_back(point.index);
      counters.push_back(point.counter);
    }
    MultiLink link{.program = static_cast<std::uint32_t>(program),
                   .path = address_of(path.c_str()),
                   .offsets = address_of(offsets.data()),
                   .reference_counters = address_of(counters.data()),
                   .cookies = address_of(cookies.data()),
                   .count = static_cast<std::uint32_t>(points.size()),
                   .multi_flags = at_return ? kUprobeMultiReturn : 0,
                   .pid = static_cast<std::uint32_t>(pid)};
    Descriptor linked(bpf(BPF_LINK_CREATE, link));
    if (!linked) return errno;
    links.add(std::move(linked));
    return 0;
  }
  for (const Point& point : points) {
    if (!has_room_for_a_link(file)) return EMFILE;
    perf_event_attr event{};
    event.size = sizeof event;
    event.type = perf_type_;
    // As /sys/bus/event_source/devices/uprobe/format has retprobe and ref_ctr_offset.
    if (point.counter > 0xffff'ffffU) return EOVERFLOW;
    event.config = (at_return ? 1 : 0) | (point.counter << 32U);
    event.config1 = address_of(path.c_str());
    event.config2 = point.offset;
    Descriptor opened(static_cast<int>(::syscall(SYS_perf_event_open, &event, pid, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!opened) return errno;
    PerfLink link{.program = static_cast<std::uint32_t>(program),
                  .event = static_cast<std::uint32_t>(opened.get()),
                  .cookie = point.index};
    Descriptor linked(bpf(BPF_LINK_CREATE, link));
    if (!linked) return errno;
    links.add_event(std::move(linked));
    links.add_event(std::move(opened));
  }
  return 0;
}

std::size_t CallCounters::ends_of(std::span<const Point> points) noexcept {
  const auto first =
      std::find_if(points.begin(), points.end(), [](const Point& point) { return point.place != CallPlace::end; });
  return static_cast<std::size_t>(first - points.begin());
}

void CallCounters::load_programs(bool timed) {
  if (loaded_.contains(timed)) return;
  bool all = true;
  for (const StackFunction& function : stack_functions()) {
    if (programs_of(shape_of(function, timed)) == nullptr) all = false;
  }
  if (all) loaded_.insert(timed);
}

CallCounters::Attached CallCounters::prepare(bool timed) {
  if (broker_) {
    const CallBroker::Linked linked = broker_->prepare(timed);
    Attached attached{.links = {}, .error = linked.error, .since_ns = linked.since_ns};
    if (linked.error == 0) attached.links.add(*broker_, linked.link);
    return attached;
  }
  load_programs(timed);
  const Descriptor self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const Point point{.offset = offset_of_private_function()};
  if (!self || point.offset == 0) return {.links = {}, .error = ENOENT};
  return attach(self.get(), ::getpid(), kEntryOnly, std::span(&point, 1));
}

std::vector<CallCounters::Attached> CallCounters::attach(int file, pid_t pid, std::span<const Function> functions) {
  if (broker_) return attach_by_broker(file, pid, functions);
  std::vector<Attached> all(functions.size());
  std::vector<const Programs*> programs(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {  // before the first link: to load one takes its time
    programs[i] = programs_of(functions[i].shape);
    if (programs[i] == nullptr) all[i].error = errno;
  }
  for (std::size_t i = 0; i < functions.size(); ++i) {
    if (programs[i] != nullptr) all[i] = attach_function(file, pid, functions[i], *programs[i]);
  }
  return all;
}

CallCounters::Attached CallCounters::attach(int file, pid_t pid, const CallShape& shape,
                                            std::span<const Point> points) {
  const Function function{.shape = shape, .points = points};
  return std::move(attach(file, pid, std::span(&function, 1)).front());
}

CallCounters::Attached CallCounters::attach_function(int file, pid_t pid, const Function& function,
                                                     const Programs& programs) const {
  Attached attached;
  const CallShape& shape = function.shape;
  const std::span<const Point> ends = function.points.first(ends_of(function.points));
  const std::span<const Point> begins = function.points.subspan(ends.size());
  // The end first: it ignores a call that began before the entry was attached.
  attached.error = attach_all(file, pid, programs.exit.get(), When::here, ends, attached.links);
  if (attached.error == 0 && shape.timed && !shape.marked) {
    attached.error = attach_all(file, pid, programs.exit.get(), When::at_return, begins, attached.links);
  }
  if (attached.error == 0) {
    attached.error = attach_all(file, pid, programs.entry.get(), When::here, begins, attached.links);
  }
  attached.since_ns = read_clock(CLOCK_MONOTONIC);
  return attached;
}

std::vector<CallCounters::Attached> CallCounters::attach_by_broker(int file, pid_t pid,
                                                                   std::span<const Function> functions) const {
  std::vector<AskedPoint> points;
  for (const Function& each : functions) {
    for (const Point& point : each.points) points.push_back({.point = point, .timed = each.shape.timed ? 1U : 0U});
  }
  const std::vector<CallBroker::Linked> linked = broker_->attach(file, pid, points);
  std::vector<Attached> all(functions.size());
  CallLinks parts;  // some points of functions whose others are refused
  auto next = linked.begin();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    for (std::size_t j = 0; j < functions[i].points.size(); ++j, ++next) {
      if (next->error == 0) {
        all[i].links.add(*broker_, next->link);
        all[i].since_ns = std::max(all[i].since_ns, next->since_ns);
      } else if (all[i].error == 0) {
        all[i].error = next->error;
      }
    }
    if (all[i].error != 0) parts.add(std::move(all[i].links));
  }
  return all;
}

std::string CallCounters::try_way(Way way) {
  way_ = way;
  programs_.clear();
  loaded_.clear();
  if (way == Way::single) {
    const auto type = number_in("/sys/bus/event_source/devices/uprobe/type");
    if (!type) return "this kernel has no uprobes";
    perf_type_ = static_cast<std::uint32_t>(*type);
  }
  std::string problem = calibrate(kEntryOnly, costs_.entry_ns);
  if (problem.empty()) problem = calibrate(kTimed, costs_.timed_ns);
  if (problem.empty()) problem = calibrate(kClock, costs_.clock_ns);
  double recorded_ns = 0;
  if (problem.empty()) problem = calibrate(kRecorded, recorded_ns);
  costs_.recording_ns = std::max(0.0, recorded_ns - costs_.entry_ns);
  // Loaded now, no rank waits for it: some twenty milliseconds of processor time. Those that only processes need which
  // are not timed are loaded by prepare().
  if (problem.empty()) load_programs(kernel_times_safely());
  return problem;
}

std::string CallCounters::calibrate(const CallShape& shape, double& cost_ns) {
  const std::uint64_t offset = offset_of_private_function();
  const Descriptor self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!self || offset == 0) return "the collector's own program cannot be read";
  // Not measured in the main thread: some kernels count only calls of that thread (fixed in Linux 6.10).
  // The fastest of a few turns: the others were interrupted.
  const auto time_of_turn = [] {
    std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
    std::thread([&fastest] {
      for (std::uint64_t turn = 0; turn < kTrials / kTurn; ++turn) {
        const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
        for (std::uint64_t i = 0; i < kTurn; ++i) static_cast<void>(reveal_calibrated_call(kCalibratedOptions));
        fastest = std::min(fastest, read_clock(CLOCK_MONOTONIC) - begin);
      }
    }).join();
    return fastest;
  };
  const std::int64_t without = time_of_turn();
  const std::size_t of_process = stack_functions().size();
  reset(0, of_process);
  const Point point{.offset = offset, .index = shape.clock ? step_function() : 0};
  const Attached attached = attach(self.get(), ::getpid(), shape, std::span(&point, 1));
  if (attached.error != 0) return why_refused("attaching to a function", attached.error);
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  const std::int64_t with = time_of_turn();
  const std::int64_t end = read_clock(CLOCK_MONOTONIC);
  const CallCounts counted = take(point.index);
  const std::vector<NumberedStep> last = take_steps(0, kTrials - 1);
  reset(0, of_process);
  if (counted.calls != kTrials || counted.returned != (shape.timed ? kTrials : 0) || last.empty() == shape.clock) {
    return "this kernel counted " + std::to_string(counted.calls) + " of " + std::to_string(kTrials) + " calls";
  }
  // The kernel reports the time of the first time namespace; in others the clocks may be moved.
  if (!last.empty()) {
    const auto time = static_cast<std::int64_t>(last.back().step.begin_ns);
    if (time < begin || time > end) return "the collector is in a time namespace, whose clock is not the kernel's";
  }
  cost_ns = std::max(0.0, static_cast<double>(with - without) / kTurn);
  if (shape.timed) costs_.bias_ns = static_cast<double>(counted.time_ns) / kTrials;
  return "";
}

std::uint64_t CallCounters::calls(std::size_t index) const noexcept {
  return std::atomic_ref(counts_.values()[index].calls).load(std::memory_order_relaxed);
}

std::uint64_t CallCounters::unsized(std::size_t index) const noexcept {
  return std::atomic_ref(counts_.values()[index].unsized).load(std::memory_order_relaxed);
}

CallCounters::Buckets CallCounters::buckets(std::size_t index) const noexcept {
  Buckets buckets{};
  std::transform(std::begin(counts_.values()[index].buckets), std::end(counts_.values()[index].buckets),
                 buckets.begin(),
                 [](std::uint64_t& calls) { return std::atomic_ref(calls).load(std::memory_order_relaxed); });
  return buckets;
}

CallCounts CallCounters::take(std::size_t index) noexcept {
  CallCounts& shared = counts_.values()[index];
  const auto read = [](std::uint64_t& number) { return std::atomic_ref(number).load(std::memory_order_relaxed); };
  // The count that a call adds first is read last: never more returns than calls.
  CallCounts counts;
  const Buckets buckets = this->buckets(index);
  std::copy(buckets.begin(), buckets.end(), std::begin(counts.buckets));
  for (std::size_t i = 0; i < CallCounts::kCodes; ++i) {
    counts.codes[i].calls = read(shared.codes[i].calls);
    counts.codes[i].status = read(shared.codes[i].status);
  }
  counts.last_error = read(shared.last_error);
  counts.errors = read(shared.errors);
  counts.longest_ns = std::atomic_ref(shared.longest_ns).exchange(0, std::memory_order_relaxed);
  counts.returned = read(shared.returned);
  counts.time_ns = read(shared.time_ns);
  counts.untimed = read(shared.untimed);
  counts.unsized = read(shared.unsized);
  counts.bytes = read(shared.bytes);
  counts.calls = read(shared.calls);
  return counts;
}

void CallCounters::reset(std::size_t first, std::size_t count) {
  if (broker_) return broker_->reset(first, count);
  drop_pending(first, count);
  std::fill_n(counts_.values().begin() + static_cast<std::ptrdiff_t>(first), count, CallCounts{});
  const std::size_t functions = stack_functions().size();
  for (std::size_t process = first / functions; (process + 1) * functions <= first + count; ++process) {
    steps_.values()[process] = StepRing{};
  }
}

void CallCounters::forget_calls(std::size_t index) {
  if (broker_) return broker_->forget(index);
  drop_pending(index, 1);
}

void CallCounters::drop_pending(std::size_t first, std::size_t count) {
  for (const auto& [call, begin] : all_pending()) {
    if (call.index >= first && call.index < first + count) drop_pending(call);
  }
}

void CallCounters::drop_pending(const PendingCall& call) const {
  bpf_attr drop{};
  drop.map_fd = static_cast<std::uint32_t>(pending_.get());
  drop.key = address_of(&call);
  if (bpf(BPF_MAP_DELETE_ELEM, drop) != 0) return;  // it has just returned
  const std::size_t functions = stack_functions().size();
  if (stack_functions()[call.index % functions].part != PartOfStep::communication) return;
  std::atomic_ref(steps_.values()[call.index / functions].collectives).fetch_sub(1, std::memory_order_relaxed);
}

namespace {

void copy_rest(BegunStep& shared, BegunStep& to) {
  to.waiting_ns = std::atomic_ref(shared.waiting_ns).load(std::memory_order_relaxed);
  to.bytes = std::atomic_ref(shared.bytes).load(std::memory_order_relaxed);
  to.gc_ns = std::atomic_ref(shared.gc_ns).load(std::memory_order_relaxed);
}
std::uint64_t& time_of(BegunStep& step) {
  return step.begin_ns;
}

void copy_rest(SampledCall& shared, SampledCall& to) {
  to.handle = std::atomic_ref(shared.handle).load(std::memory_order_relaxed);
  to.number = std::atomic_ref(shared.number).load(std::memory_order_relaxed);
  to.index = std::atomic_ref(shared.index).load(std::memory_order_relaxed);
}
std::uint64_t& time_of(SampledCall& call) {
  return call.begin_ns;
}

void copy_rest(RareCall& shared, RareCall& to) {
  to.index = std::atomic_ref(shared.index).load(std::memory_order_relaxed);
  to.about = std::atomic_ref(shared.about).load(std::memory_order_relaxed);
  to.id = std::atomic_ref(shared.id).load(std::memory_order_relaxed);
}
std::uint64_t& time_of(RareCall& call) {
  return call.time_ns;
}

/// Takes the entries from number `next` on out of a ring, to which the kernel has appended `counted` so far.
template <typename Entry, std::size_t kEntries>
std::vector<std::pair<std::uint64_t, Entry>> take_new(std::uint64_t& counted, Entry (&ring)[kEntries],
                                                      std::uint64_t next) {
  constexpr std::uint64_t kAtOnce = 64;  // threads that may be about to write an entry
  const auto count = [&counted] { return std::atomic_ref(counted).load(std::memory_order_acquire); };
  const auto oldest = [](std::uint64_t all) { return all > kEntries ? all - kEntries : 0; };
  std::vector<std::pair<std::uint64_t, Entry>> taken;
  const std::uint64_t end = count();
  for (std::uint64_t number = std::max(next, oldest(end)); number < end; ++number) {
    Entry& shared = ring[number % kEntries];
    Entry entry;
    time_of(entry) = std::atomic_ref(time_of(shared)).exchange(0, std::memory_order_acquire);
    copy_rest(shared, entry);
    if (time_of(entry) != 0) {
      // One of a whole ring ago that was never taken, while the new one is not written yet.
      const bool stale = !taken.empty() && time_of(entry) < time_of(taken.back().second);
      if (!stale) taken.emplace_back(number, entry);
    } else if (end - number <= kAtOnce) {
      break;
    }
  }
  // Meanwhile, later ones may have taken their places.
  const std::uint64_t whole_from = oldest(count());
  std::erase_if(taken, [whole_from](const auto& each) { return each.first < whole_from; });
  return taken;
}

}  // namespace

std::vector<CallCounters::NumberedStep> CallCounters::take_steps(std::size_t process, std::uint64_t next) {
  StepRing& ring = steps_.values()[process];
  std::vector<NumberedStep> steps;
  for (const auto& [number, step] : take_new(ring.count, ring.steps, next)) steps.push_back({number, step});
  return steps;
}

std::vector<CallCounters::NumberedSample> CallCounters::take_samples(std::size_t process, std::uint64_t next) {
  StepRing& ring = steps_.values()[process];
  std::vector<NumberedSample> samples;
  for (const auto& [number, call] : take_new(ring.sampled, ring.samples, next)) samples.push_back({number, call});
  return samples;
}

std::vector<CallCounters::NumberedRareCall> CallCounters::take_rare_calls(std::size_t process, std::uint64_t next) {
  StepRing& ring = steps_.values()[process];
  std::vector<NumberedRareCall> calls;
  for (const auto& [number, call] : take_new(ring.rare, ring.rare_calls, next)) calls.push_back({number, call});
  return calls;
}

void CallCounters::begin_sampling(std::size_t process) noexcept {
  constexpr std::int64_t kPeriod = CommunicatorCalls::kSamplePeriodNs;
  const std::int64_t utc = read_clock(CLOCK_REALTIME);
  const std::int64_t next = read_clock(CLOCK_MONOTONIC) + kPeriod - utc % kPeriod;
  for (CommunicatorCalls& communicator : steps_.values()[process].communicators) {
    std::uint64_t unset = 0;
    std::atomic_ref(communicator.next_sample_ns)
        .compare_exchange_strong(unset, static_cast<std::uint64_t>(next), std::memory_order_relaxed);
  }
}

std::uint64_t CallCounters::communication_ns(std::size_t process) const noexcept {
  return std::atomic_ref(steps_.values()[process].communication_ns).load(std::memory_order_relaxed);
}

std::vector<CallCounters::Communicator> CallCounters::communicators(std::size_t process) const {
  const auto read = [](std::uint64_t& number) { return std::atomic_ref(number).load(std::memory_order_acquire); };
  std::vector<Communicator> all;
  if (read(steps_.values()[process].unrecorded) != 0) return all;  // the one in which it waits may be missing
  for (std::size_t order = 0; order < StepRing::kCommunicators; ++order) {
    CommunicatorCalls& shared = steps_.values()[process].communicators[order];
    const std::uint64_t handle = read(shared.handle);
    if (handle == 0) continue;
    Communicator known{
        .order = order, .handle = handle, .id = read(shared.id), .calls = read(shared.calls), .newest = {}};
    if (known.calls == 0 && known.id == 0) continue;  // its first call begins
    const std::uint64_t members = read(shared.members);
    const auto ranks = static_cast<std::uint32_t>(members >> 32U);
    const auto rank = static_cast<std::uint32_t>(members);
    // Anything else is not what it is taken for: another version of gloo.
    if (rank < ranks && ranks <= kMostMembers) {
      known.ranks = ranks;
      known.rank = rank;
    }
    for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(known.calls, CommunicatorCalls::kNewest); ++back) {
      if (const auto call = call_of(read(shared.newest[(known.calls - back) % CommunicatorCalls::kNewest]))) {
        known.newest.push_back(*call);
      } else {
        break;  // it is being written
      }
    }
    known.begin_ns = read(shared.begin_ns);
    if (read(shared.calls) != known.calls) known.newest.clear();  // some may be later ones
    if (read(shared.handle) == handle) all.push_back(std::move(known));
  }
  return all;
}

std::map<std::size_t, std::int64_t> CallCounters::pending() const {
  if (broker_) return broker_->pending();
  std::map<std::size_t, std::int64_t> oldest;
  for (const auto& [call, begin] : all_pending()) {
    if (thread_ended(call)) {
      drop_pending(call);  // otherwise a pool of threads that end fills the table, and no call has a time
      continue;
    }
    const auto [place, fresh] = oldest.emplace(call.index, begin);
    if (!fresh) place->second = std::min(place->second, begin);
  }
  return oldest;
}

std::vector<std::pair<PendingCall, std::int64_t>> CallCounters::all_pending() const {
  std::vector<std::pair<PendingCall, std::int64_t>> all;
  PendingCall call{};
  PendingCall next{};
  PendingBegin begin;
  bpf_attr step{};
  step.map_fd = static_cast<std::uint32_t>(pending_.get());
  step.next_key = address_of(&next);
  bpf_attr lookup{};
  lookup.map_fd = step.map_fd;
  lookup.key = address_of(&next);
  lookup.value = address_of(&begin);
  // Calls come and go meanwhile: then the kernel may begin anew, and some are seen twice.
  for (std::uint32_t i = 0; i < kMostPending && bpf(BPF_MAP_GET_NEXT_KEY, step) == 0; ++i) {
    if (bpf(BPF_MAP_LOOKUP_ELEM, lookup) == 0) all.emplace_back(next, static_cast<std::int64_t>(begin.begin_ns));
    call = next;
    step.key = address_of(&call);
  }
  return all;
}

}  // namespace reveal
