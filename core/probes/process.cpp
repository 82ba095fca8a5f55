// The job's most important processes, one by one, in the slots of core/job/process_slots.h.
#include <array>

#include "core/job/cpu_set.h"
#include "core/root/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr MetricHelp kCpu[] = {
    {"process.cpu_time", "CPU time of all threads, in the kernel's clock ticks."},
    {"process.run_time", "The same of the threads seen alive, exact."},
    {"process.wait_time", "Time in which threads were ready but had no cpu."},
};
constexpr MetricHelp kFaults[] = {
    {"process.minor_faults", "Page faults served from memory."},
    {"process.major_faults", "Page faults that had to read."},
};
constexpr MetricHelp kThreads[] = {{"process.threads", "Threads."}};
constexpr MetricHelp kMemory[] = {{"process.rss", "Resident memory."}};
constexpr MetricHelp kPlace[] = {{"process.last_cpu", "Cpu the main thread last ran on."}};
constexpr MetricHelp kIo[] = {
    {"process.read_bytes", "Bytes read from storage."},
    {"process.write_bytes", "Bytes written to the page cache for storage."},
    {"process.read_by_calls", "Bytes that its read calls returned, from storage, a file server, cache or pipes."},
    {"process.written_by_calls", "Bytes that its write calls took."},
};
constexpr MetricHelp kIoCalls[] = {
    {"process.reads", "Read calls."},
    {"process.writes", "Write calls."},
};
constexpr MetricHelp kSwitches[] = {
    {"process.voluntary_switches", "Times the main thread gave up its cpu to wait."},
    {"process.involuntary_switches", "Times the main thread was taken off its cpu."},
    {"process.migrations", "Times the main thread changed its cpu."},
};
constexpr MetricHelp kAllowed[] = {
    {"process.cpus_allowed", "Cpus the main thread may run on."},
    {"process.numa_nodes_allowed", "NUMA nodes it may take memory from."},
};

constexpr Subsystem kProcess = Subsystem::process;
constexpr FamilyTable kFamilies[] = {
    {"process/cpu", Kind::counter, Unit::nanoseconds, Scope::process, kProcess, "CPU time and waiting of a process",
     "/proc/PID/stat, /proc/PID/task/*/schedstat", kCpu},
    {"process/faults", Kind::counter, Unit::count, Scope::process, kProcess, "Page faults of a process",
     "/proc/PID/stat", kFaults},
    {"process/threads", Kind::gauge, Unit::count, Scope::process, kProcess, "Threads of a process", "/proc/PID/stat",
     kThreads},
    {"process/memory", Kind::gauge, Unit::bytes, Scope::process, kProcess, "Memory of a process", "/proc/PID/stat",
     kMemory},
    {"process/place", Kind::state, Unit::count, Scope::process, kProcess, "Where a process runs", "/proc/PID/stat",
     kPlace},
    {"process/io", Kind::counter, Unit::bytes, Scope::process, kProcess, "Bytes a process read and wrote",
     "/proc/PID/io", kIo},
    {"process/io_calls", Kind::counter, Unit::count, Scope::process, kProcess, "Reads and writes of a process",
     "/proc/PID/io", kIoCalls},
};
/// Of /proc/PID/io: the key, and where in kFamilies it goes.
struct IoKey {
  std::string_view key;
  std::size_t family;
  std::int32_t metric;
};
constexpr std::array kIoKeys = {IoKey{"rchar:", 5, 2}, IoKey{"wchar:", 5, 3},      IoKey{"syscr:", 6, 0},
                                IoKey{"syscw:", 6, 1}, IoKey{"read_bytes:", 5, 0}, IoKey{"write_bytes:", 5, 1}};
constexpr FamilyTable kSlowFamilies[] = {
    {"process/switches", Kind::counter, Unit::count, Scope::process, kProcess, "Context switches and migrations",
     "/proc/PID/status, /proc/PID/sched", kSwitches},
    {"process/cpus", Kind::gauge, Unit::count, Scope::process, kProcess, "Cpus a process may use", "/proc/PID/status",
     kAllowed},
};

// Shared by both probes: channels appear with the first process of a slot, and a row in which a slot got another
// process is missing, because the values of two processes are not comparable.
template <std::size_t Families, std::size_t Counters>
class SlotProbe : public Probe {
 public:
  SlotProbe(const ProbeContext& context, std::span<const FamilyTable> tables) : context_(context), tables_(tables) {
    for (std::size_t i = 0; i < Families; ++i) families_[i] = &context.family(tables[i]);
  }

  void sample() noexcept final {
    for (Family* family : families_) family->begin();
    const std::vector<ProcessSlot>& slots = context_.slots->slots();
    if (places_.size() < slots.size()) add_places(slots);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].process == nullptr || places_[i].occupants != slots[i].occupants) leave(places_[i]);
    }
    // Children mostly have later places than their parents: one that ends meanwhile is seen to be gone before its
    // parent is seen to have waited for it.
    for (std::size_t i = slots.size(); i-- > 0;) {
      Place& place = places_[i];
      if (slots[i].process == nullptr) continue;
      const bool entered = place.occupants != slots[i].occupants;
      if (entered) {
        place.occupants = slots[i].occupants;
        for (Continued& counter : place.counters) counter.restart();
        enter(place, slots[i]);
      }
      measure(place, slots[i], entered);
    }
    for (Family* family : families_) family->commit();
  }

  [[nodiscard]] std::string caveat() const override { return context_.host.caveat; }

 protected:
  struct Place {
    std::array<std::int32_t, Families> first{};
    std::array<Continued, Counters> counters;
    std::uint64_t occupants = 0;
    KernelFile io, status, sched;
    int pid = 0;
    int parent = 0;
    std::array<std::int64_t, Counters> at_entry{};  // of the counters
  };

  /// Its process has ended, or gave its place to another.
  virtual void leave([[maybe_unused]] Place& place) {}
  virtual void enter(Place& place, const ProcessSlot& slot) = 0;
  virtual void measure(Place& place, const ProcessSlot& slot, bool entered) = 0;

  void set(std::size_t family, const Place& place, std::int32_t metric, std::int64_t value) {
    families_[family]->set(place.first[family] + metric, value);
  }

  ProbeContext context_;

 private:
  void add_places(const std::vector<ProcessSlot>& slots) {
    for (std::size_t i = places_.size(); i < slots.size(); ++i) {
      Place place;
      for (std::size_t f = 0; f < Families; ++f) {
        place.first[f] = static_cast<std::int32_t>(families_[f]->channels().size());
        for (const MetricHelp& metric : tables_[f].metrics) {
          families_[f]->add(metric.name, slots[i].instance, slots[i].role);
        }
      }
      places_.push_back(std::move(place));
    }
  }

  std::span<const FamilyTable> tables_;
  std::array<Family*, Families> families_{};
  std::vector<Place> places_;
};

class ProcessProbe final : public SlotProbe<std::size(kFamilies), 3 + kIoKeys.size()> {
 public:
  explicit ProcessProbe(const ProbeContext& context) : SlotProbe(context, kFamilies) {}

 private:
  /// What a process that ended read and wrote, as far as it is counted. The kernel adds all of it to the parent that
  /// waits for it, where it must not count twice.
  struct Ended {
    int parent = 0;
    std::array<std::int64_t, kIoKeys.size()> counted{};
  };

  void leave(Place& place) override {
    if (place.pid == 0) return;
    Ended& ended = ended_[next_ended_++ % ended_.size()];
    ended.parent = place.parent;
    for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
      ended.counted[i] = place.counters[kFirstIo + i].total() - place.at_entry[kFirstIo + i];
    }
    place.pid = 0;
  }

  void enter(Place& place, const ProcessSlot& slot) override {
    place.io = context_.fs.open("/proc/" + std::to_string(slot.pid) + "/io", 256);
    place.pid = slot.pid;
    for (std::size_t i = 0; i < place.counters.size(); ++i) place.at_entry[i] = place.counters[i].total();
    // What ended before may have been children of another process of that number.
    for (Ended& ended : ended_) {
      if (ended.parent == slot.pid) ended = {};
    }
  }

  void measure(Place& place, const ProcessSlot& slot, bool entered) override {
    const ProcessStat& stat = slot.process->stat;
    const std::int64_t ticks = place.counters[0].follow(stat.user_ticks + stat.system_ticks);
    const std::int64_t minor = place.counters[1].follow(stat.minor_faults);
    const std::int64_t major = place.counters[2].follow(stat.major_faults);
    place.parent = stat.parent;
    const std::string_view io = place.io.read();
    if (io.empty()) leave(place);  // ended since the job was looked at
    follow_io(place, io, entered);
    set(2, place, 0, stat.threads);
    set(3, place, 0, scaled(stat.resident_pages, context_.host.page_bytes));
    set(4, place, 0, stat.last_cpu);
    if (entered) return;
    set(0, place, 0, scaled(ticks, context_.host.tick_ns));
    set(0, place, 1, slot.run_ns);
    set(0, place, 2, slot.wait_ns);
    set(1, place, 0, minor);
    set(1, place, 1, major);
  }

  void follow_io(Place& place, std::string_view io, bool entered) {
    std::string_view line;
    while (next_line(io, line)) {
      const std::string_view key = cut_word(line);
      std::int64_t count = 0;
      for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
        if (kIoKeys[i].key != key || !parse_counter(cut_word(line), count)) continue;
        Continued& counter = place.counters[kFirstIo + i];
        for (Ended& ended : ended_) {
          if (ended.parent == place.pid && counter.leave_out(count, ended.counted[i])) ended.counted[i] = 0;
        }
        const std::int64_t total = counter.follow(count);
        if (!entered) set(kIoKeys[i].family, place, kIoKeys[i].metric, total);
        break;
      }
    }
  }

  static constexpr std::size_t kFirstIo = 3;  // of the counters
  std::array<Ended, 2 * ProcessSlots::kSlots> ended_{};
  std::size_t next_ended_ = 0;
};

class ProcessStatusProbe final : public SlotProbe<std::size(kSlowFamilies), 3> {
 public:
  explicit ProcessStatusProbe(const ProbeContext& context) : SlotProbe(context, kSlowFamilies) {}

 private:
  void enter(Place& place, const ProcessSlot& slot) override {
    const std::string folder = "/proc/" + std::to_string(slot.pid);
    place.status = context_.fs.open(folder + "/status", 2048);
    place.sched = context_.fs.open(folder + "/sched", 4096);
  }

  void measure(Place& place, const ProcessSlot& slot, bool entered) override {
    (void)slot;
    const std::string_view status = place.status.read();
    const std::size_t cpus = CpuSet::of_list(field_of(status, "Cpus_allowed_list")).size();
    if (cpus > 0) set(1, place, 0, static_cast<std::int64_t>(cpus));
    const std::size_t nodes = CpuSet::of_list(field_of(status, "Mems_allowed_list")).size();
    if (nodes > 0) set(1, place, 1, static_cast<std::int64_t>(nodes));
    std::int64_t count = 0;
    std::array<std::int64_t, 3> totals{kMissing, kMissing, kMissing};
    if (parse_counter(field_of(status, "voluntary_ctxt_switches"), count)) totals[0] = place.counters[0].follow(count);
    if (parse_counter(field_of(status, "nonvoluntary_ctxt_switches"), count))
      totals[1] = place.counters[1].follow(count);
    if (parse_counter(field_of(place.sched.read(), "se.nr_migrations"), count)) {
      totals[2] = place.counters[2].follow(count);
    }
    if (entered) return;
    for (std::size_t i = 0; i < totals.size(); ++i) set(0, place, static_cast<std::int32_t>(i), totals[i]);
  }
};

std::unique_ptr<Probe> open_process(const ProbeContext& context) {
  if (context.slots == nullptr) throw Unavailable("no job was named (--job)");
  return std::make_unique<ProcessProbe>(context);
}

std::unique_ptr<Probe> open_process_status(const ProbeContext& context) {
  if (context.slots == nullptr) throw Unavailable("no job was named (--job)");
  return std::make_unique<ProcessStatusProbe>(context);
}

const RegisteredProbe process{{.name = "process",
                               .help = "CPU time, waiting, faults, memory, io and place of the job's main processes",
                               .families = kFamilies,
                               .open = open_process,
                               .remedy = "run the command under reveal-run or srun --reveal"}};
const RegisteredProbe status{{.name = "process_status",
                              .help = "Context switches, migrations and affinity of the job's main processes",
                              .period = 1s,
                              .families = kSlowFamilies,
                              .open = open_process_status,
                              .remedy = "run the command under reveal-run or srun --reveal"}};

}  // namespace
}  // namespace reveal
