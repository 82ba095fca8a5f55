// The job's most important processes, one by one, in the slots of core/job/process_slots.h.
// https://docs.kernel.org/scheduler/sched-stats.html
#include <algorithm>
#include <array>

#include "core/job/cpu_set.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::process {
namespace {

constexpr MetricHelp kCpu[] = {
    {"process.cpu_time", "CPU time of all threads, in the kernel's clock ticks."},
    {"process.run_time", "Exact CPU time of the threads observed alive."},
    {"process.wait_time", "Time in which threads were ready but had no cpu."},
};
constexpr MetricHelp kFaults[] = {
    {"process.minor_faults", "Page faults served from memory."},
    {"process.major_faults", "Page faults that needed a read from storage."},
};
constexpr MetricHelp kThreads[] = {{"process.threads", "Threads."}};
constexpr MetricHelp kMemory[] = {{"process.rss", "Resident memory."}};
constexpr MetricHelp kPlace[] = {{"process.last_cpu", "Cpu the main thread last ran on."}};
constexpr MetricHelp kIo[] = {
    {"process.read_bytes", "Bytes read from storage."},
    {"process.write_bytes", "Bytes written to the page cache for storage."},
    {"process.read_by_calls",
     "Bytes that its read calls returned, from storage, a file server, cache, pipes or sockets."},
    {"process.written_by_calls", "Bytes that its write calls accepted."},
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
    {"process.numa_nodes_allowed", "NUMA nodes from which it may allocate memory."},
};

constexpr MetricHelp kKinds[] = {
    {"process.rss_anon", "Resident memory that belongs to no file: the kernel can only swap it out, not drop it."},
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
/// A line of /proc/PID/io: the key, and its place in kFamilies.
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
    {"process/memory_kinds", Kind::gauge, Unit::bytes, Scope::process, kProcess, "Kinds of memory of a process",
     "/proc/PID/status", kKinds},
};

// Shared by both probes: channels appear with the first process of a slot. The counters of a process that began while
// it was recorded count from 0, so that their increments sum to its total. The values of any other process before it
// got its slot may be older than this recording: its first row is missing.
template <std::size_t Families, std::size_t Counters>
class SlotProbe : public Probe {
 public:
  SlotProbe(const ProbeContext& context, std::span<const FamilyTable> tables,
            std::chrono::nanoseconds youngest = std::chrono::nanoseconds(0))
      : context_(context), tables_(tables), youngest_(youngest) {
    for (std::size_t i = 0; i < Families; ++i) families_[i] = &context.family(tables[i]);
  }

  void sample() noexcept final {
    ++looks_;
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
      if (looks_ > 1 && context_.sink.now() - slots[i].process->found_ns < youngest_.count()) continue;
      place.counts = place.occupants == slots[i].occupants || slots[i].from_birth;
      place.before_birth = looks_ == 1 && slots[i].from_birth;
      if (place.occupants != slots[i].occupants) {
        place.occupants = slots[i].occupants;
        for (MonotonicSum& counter : place.counters) counter.restart(slots[i].from_birth ? 0 : kMissing);
        enter(place, slots[i]);
      }
      measure(place, slots[i]);
    }
    finish();
    for (Family* family : families_) family->commit();
  }

  [[nodiscard]] std::string caveat() const override { return context_.host.caveat; }

 protected:
  struct Place {
    std::array<std::int32_t, Families> first{};
    std::array<MonotonicSum, Counters> counters;
    std::uint64_t occupants = 0;
    bool counts = false;        // its counters have values in this row
    bool before_birth = false;  // the very first row is their start value
    KernelFile io, status, sched;
    int pid = 0;
    int parent = 0;
    std::int64_t start_ticks = 0;
  };

  /// Its process has ended, or gave its place to another.
  virtual void leave([[maybe_unused]] Place& place) {}
  virtual void enter(Place& place, const ProcessSlot& slot) = 0;
  virtual void measure(Place& place, const ProcessSlot& slot) = 0;
  /// After all were measured.
  virtual void finish() {}

  static std::int64_t follow(Place& place, std::size_t counter, std::int64_t raw) noexcept {
    return place.before_birth ? place.counters[counter].total() : place.counters[counter].follow(raw);
  }
  [[nodiscard]] Place& place(std::size_t slot) noexcept { return places_[slot]; }
  [[nodiscard]] std::size_t slot_of(const Place& place) const noexcept {
    return static_cast<std::size_t>(&place - places_.data());
  }

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
          families_[f]->add(metric.name, slots[i].instance, slots[i].role, slots[i].from_birth ? 0 : kMissing);
        }
      }
      places_.push_back(std::move(place));
    }
  }

  std::span<const FamilyTable> tables_;
  std::chrono::nanoseconds youngest_;  // process that is worth opening files
  std::array<Family*, Families> families_{};
  std::vector<Place> places_;
  std::uint64_t looks_ = 0;
};

class ProcessProbe final : public SlotProbe<std::size(kFamilies), 3 + kIoKeys.size()> {
 public:
  explicit ProcessProbe(const ProbeContext& context) : SlotProbe(context, kFamilies) {}

 private:
  /// The counted reads and writes of a process that ended. The kernel adds all of it to the parent that waits for it,
  /// where it must not count twice.
  struct Ended {
    int pid = 0;
    int parent = 0;
    std::int64_t start_ticks = 0;
    std::array<std::int64_t, kIoKeys.size()> counted{};
  };

  /// A launcher is not measured, but has the last counts of the processes that it waited for. It is counted in the slot
  /// of the one that ended last.
  struct Launcher {
    int pid = 0;
    KernelFile io;       // with its children
    KernelFile main_io;  // io file of the only thread
    std::array<MonotonicSum, kIoKeys.size()> reaped;
    std::size_t slot = 0;
    int looks_left = 0;  // for a child that has ended to be waited for
  };
  using Counts = std::array<std::int64_t, kIoKeys.size()>;

  void leave(Place& place) override {
    if (place.pid == 0) return;
    // Waited for after its parent was read last: the parent's parent will have it, whichever of the two left first.
    int parent = place.parent;
    for (Ended& ended : ended_) {
      if (ended.parent == place.pid) ended.parent = parent;
      if (ended.pid == parent) parent = ended.parent;
    }
    Ended& ended = ended_[next_ended_++ % ended_.size()];
    ended.pid = place.pid;
    ended.parent = parent;
    ended.start_ticks = place.start_ticks;
    for (std::size_t i = 0; i < kIoKeys.size(); ++i) ended.counted[i] = place.counters[kFirstIo + i].followed();
    for (Launcher& launcher : launchers_) {
      if (launcher.pid != parent) continue;
      launcher.slot = slot_of(place);
      launcher.looks_left = kMostLooks;
    }
    place.pid = 0;
  }

  void enter(Place& place, const ProcessSlot& slot) override {
    place.io = context_.fs.open("/proc/" + std::to_string(slot.pid) + "/io", 256);
    place.pid = slot.pid;
    place.start_ticks = slot.start_ticks;
    // Processes that ended before may have been children of another process with that number.
    for (Ended& ended : ended_) {
      if (ended.parent == slot.pid && !(slot.from_birth && ended.start_ticks >= slot.start_ticks)) ended = {};
    }
    const JobProcess* parent = context_.job->find(slot.process->stat.parent);
    // A launcher with several threads is left out: its threads' own counts cannot be separated.
    if (parent != nullptr && parent->launcher && parent->stat.threads <= 1) meet_launcher(parent->pid);
  }

  void meet_launcher(int pid) {
    const auto known = [pid](const Launcher& launcher) { return launcher.pid == pid; };
    if (std::any_of(launchers_.begin(), launchers_.end(), known)) return;
    const std::string folder = "/proc/" + std::to_string(pid);
    Launcher& launcher = launchers_[next_launcher_++ % launchers_.size()];
    launcher = {};
    launcher.pid = pid;
    launcher.io = context_.fs.open(folder + "/io", 256);
    launcher.main_io = context_.fs.open(folder + "/task/" + std::to_string(pid) + "/io", 256);
    const Counts reaped = reaped_by(launcher);
    for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
      if (reaped[i] != kMissing) launcher.reaped[i].follow(reaped[i]);
    }
  }

  static Counts reaped_by(Launcher& launcher) noexcept {
    Counts all = counts_in(launcher.io.read());
    const Counts own = counts_in(launcher.main_io.read());
    for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
      all[i] = all[i] == kMissing || own[i] == kMissing || all[i] < own[i] ? kMissing : all[i] - own[i];
    }
    return all;
  }

  static Counts counts_in(std::string_view io) noexcept {
    Counts counts;
    counts.fill(kMissing);
    std::string_view line;
    while (next_line(io, line)) {
      const std::string_view key = cut_word(line);
      std::int64_t count = 0;
      for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
        if (kIoKeys[i].key != key) continue;
        if (parse_counter(cut_word(line), count)) counts[i] = count;
        break;
      }
    }
    return counts;
  }

  void finish() override {
    for (Launcher& launcher : launchers_) {
      if (launcher.looks_left == 0) continue;
      --launcher.looks_left;
      const Counts reaped = reaped_by(launcher);
      Place& heir = place(launcher.slot);
      for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
        if (reaped[i] == kMissing) continue;
        MonotonicSum& counter = launcher.reaped[i];
        leave_out_ended(launcher.pid, i, reaped[i], counter);
        const std::int64_t before = counter.total();
        const std::int64_t growth = counter.follow(reaped[i]) - before;
        if (growth == 0) continue;
        heir.counters[kFirstIo + i].add(growth);
        set(kIoKeys[i].family, heir, kIoKeys[i].metric, heir.counters[kFirstIo + i].total());
      }
    }
  }

  void leave_out_ended(int parent, std::size_t key, std::int64_t count, MonotonicSum& counter) noexcept {
    for (Ended& ended : ended_) {
      if (ended.parent == parent && counter.leave_out(count, ended.counted[key])) ended.counted[key] = 0;
    }
  }

  void measure(Place& place, const ProcessSlot& slot) override {
    const ProcessStat& stat = slot.process->stat;
    const std::int64_t ticks = follow(place, 0, stat.user_ticks + stat.system_ticks);
    const std::int64_t minor = follow(place, 1, stat.minor_faults);
    const std::int64_t major = follow(place, 2, stat.major_faults);
    place.parent = stat.parent;
    const std::string_view io = place.io.read();
    if (io.empty()) leave(place);  // ended since the job was looked at
    follow_io(place, io);
    set(2, place, 0, stat.threads);
    set(3, place, 0, scaled(stat.resident_pages, context_.host.page_bytes));
    set(4, place, 0, stat.last_cpu);
    if (!place.counts) return;
    set(0, place, 0, scaled(ticks, context_.host.tick_ns));
    set(0, place, 1, slot.run_ns);
    set(0, place, 2, slot.wait_ns);
    set(1, place, 0, minor);
    set(1, place, 1, major);
  }

  void follow_io(Place& place, std::string_view io) {
    const Counts counts = counts_in(io);
    for (std::size_t i = 0; i < kIoKeys.size(); ++i) {
      if (counts[i] == kMissing) continue;
      if (!place.before_birth) leave_out_ended(place.pid, i, counts[i], place.counters[kFirstIo + i]);
      const std::int64_t total = follow(place, kFirstIo + i, counts[i]);
      if (place.counts) set(kIoKeys[i].family, place, kIoKeys[i].metric, total);
    }
  }

  static constexpr std::size_t kFirstIo = 3;  // place of the first of them among the counters
  static constexpr int kMostLooks = 10;
  std::array<Ended, 2 * ProcessSlots::kSlots> ended_{};
  std::size_t next_ended_ = 0;
  std::array<Launcher, ProcessSlots::kSlots> launchers_{};
  std::size_t next_launcher_ = 0;
};

class ProcessStatusProbe final : public SlotProbe<std::size(kSlowFamilies), 3> {
 public:
  explicit ProcessStatusProbe(const ProbeContext& context) : SlotProbe(context, kSlowFamilies, context.period) {}

 private:
  void enter(Place& place, const ProcessSlot& slot) override {
    const std::string folder = "/proc/" + std::to_string(slot.pid);
    place.status = context_.fs.open(folder + "/status", 2048);
    place.sched = context_.fs.open(folder + "/sched", 4096);
  }

  void measure(Place& place, [[maybe_unused]] const ProcessSlot& slot) override {
    const std::string_view status = place.status.read();
    const std::size_t cpus = CpuSet::of_list(field_of(status, "Cpus_allowed_list")).size();
    if (cpus > 0) set(1, place, 0, static_cast<std::int64_t>(cpus));
    const std::size_t nodes = CpuSet::of_list(field_of(status, "Mems_allowed_list")).size();
    if (nodes > 0) set(1, place, 1, static_cast<std::int64_t>(nodes));
    std::int64_t count = 0;
    if (parse_counter(field_of(status, "RssAnon"), count)) set(2, place, 0, scaled(count, 1024));
    std::array<std::int64_t, 3> totals{kMissing, kMissing, kMissing};
    if (parse_counter(field_of(status, "voluntary_ctxt_switches"), count)) totals[0] = follow(place, 0, count);
    if (parse_counter(field_of(status, "nonvoluntary_ctxt_switches"), count)) totals[1] = follow(place, 1, count);
    if (parse_counter(field_of(place.sched.read(), "se.nr_migrations"), count)) {
      totals[2] = follow(place, 2, count);
    }
    if (!place.counts) return;
    for (std::size_t i = 0; i < totals.size(); ++i) set(0, place, static_cast<std::int32_t>(i), totals[i]);
  }
};

std::unique_ptr<Probe> open_process(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<ProcessProbe>(context);
}

std::unique_ptr<Probe> open_process_status(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<ProcessStatusProbe>(context);
}

const RegisteredProbe process{{.name = "process",
                               .help = "CPU time, waiting, faults, memory, io and place of the job's main processes",
                               .families = kFamilies,
                               .open = open_process,
                               .remedy = "run the command under reveal-run or srun --reveal"}};
const RegisteredProbe status{
    {.name = "process_status",
     .help = "Context switches, migrations, affinity and anonymous memory of the job's main processes",
     .period = 1s,
     .families = kSlowFamilies,
     .open = open_process_status,
     .remedy = "run the command under reveal-run or srun --reveal"}};

}  // namespace
}  // namespace reveal::probe::process
