// /proc/stat: where the time of each cpu went, and what the scheduler did.
#include <array>

#include "core/root/key_index.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// In the order of the columns. The kernel counts guest time in user, too; left as it says.
constexpr MetricHelp kTimes[] = {
    {"cpu.user", "Running user code, guests included."},
    {"cpu.nice", "Running user code at lowered priority."},
    {"cpu.system", "Running the kernel for processes."},
    {"cpu.idle", "Nothing to do."},
    {"cpu.iowait", "Nothing to do while a task of this cpu waited for a disk."},
    {"cpu.irq", "Serving interrupts."},
    {"cpu.softirq", "Serving deferred interrupt work."},
    {"cpu.steal", "Wanted to run, but the hypervisor ran something else."},
    {"cpu.guest", "Running a guest of this host."},
    {"cpu.guest_nice", "Running a guest at lowered priority."},
};
constexpr MetricHelp kActivity[] = {
    {"cpu.interrupts", "Interrupts served by all cpus."},
    {"cpu.context_switches", "Context switches of all cpus."},
    {"cpu.forks", "Processes and threads created."},
    {"cpu.softirqs", "Soft interrupts of all cpus."},
};
constexpr std::array<std::string_view, 4> kActivityKeys = {"intr", "ctxt", "processes", "softirq"};
constexpr MetricHelp kRunQueue[] = {
    {"cpu.procs_running", "Tasks running or ready to run."},
    {"cpu.procs_blocked", "Tasks waiting for a disk."},
};
constexpr std::array<std::string_view, 2> kRunQueueKeys = {"procs_running", "procs_blocked"};

constexpr FamilyTable kFamilies[] = {
    {"cpu/times", Kind::counter, Unit::nanoseconds, Scope::cpu, Subsystem::cpu, "Time of each cpu by use", "/proc/stat",
     kTimes},
    {"cpu/activity", Kind::counter, Unit::count, Scope::node, Subsystem::cpu, "Scheduler and interrupt activity",
     "/proc/stat", kActivity},
    {"cpu/run_queue", Kind::gauge, Unit::count, Scope::node, Subsystem::cpu, "Tasks ready and blocked", "/proc/stat",
     kRunQueue},
};

class CpuProbe final : public Probe {
 public:
  CpuProbe(const ProbeContext& context, KernelFile file)
      : context_(context),
        file_(std::move(file)),
        times_(context.family(kFamilies[0])),
        activity_(context.family(kFamilies[1])),
        run_queue_(context.family(kFamilies[2])) {
    for (const MetricHelp& metric : kActivity) activity_.add(metric.name);
    for (const MetricHelp& metric : kRunQueue) run_queue_.add(metric.name);
  }

  void sample() noexcept override {
    times_.begin();
    activity_.begin();
    run_queue_.begin();
    cpus_.rewind();
    std::string_view rest = file_.read();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view key = cut_word(line);
      if (key.size() > 3 && key.substr(0, 3) == "cpu") {
        parse_cpu(key, line);
      } else {
        parse_total(key, line, activity_, kActivityKeys);
        parse_total(key, line, run_queue_, kRunQueueKeys);
      }
    }
    times_.commit();
    activity_.commit();
    run_queue_.commit();
  }

 private:
  void parse_cpu(std::string_view key, std::string_view line) {
    std::size_t cpu = cpus_.find(key);
    if (cpu == KeyIndex::kUnknown) {
      cpu = cpus_.add(key);
      const auto number = parse_int(key.substr(3));
      first_channel_.push_back(Family::kNoChannel);
      if (number) {
        for (const MetricHelp& metric : kTimes) {
          const std::int32_t channel = times_.add(metric.name, key, context_.role_of_cpu(static_cast<int>(*number)));
          if (first_channel_.back() == Family::kNoChannel) first_channel_.back() = channel;
        }
      }
    }
    std::int32_t channel = first_channel_[cpu];
    if (channel == Family::kNoChannel) return;
    for (std::size_t column = 0; column < std::size(kTimes); ++column, ++channel) {
      std::int64_t ticks = 0;
      if (!parse_counter(cut_word(line), ticks)) return;
      times_.set(channel, ticks * context_.host.tick_ns);
    }
  }

  template <std::size_t Size>
  static void parse_total(std::string_view key, std::string_view line, Family& family,
                          const std::array<std::string_view, Size>& keys) {
    for (std::size_t i = 0; i < Size; ++i) {
      std::int64_t value = 0;
      if (keys[i] == key && parse_counter(cut_word(line), value)) family.set(static_cast<std::int32_t>(i), value);
    }
  }

  ProbeContext context_;
  KernelFile file_;
  Family& times_;
  Family& activity_;
  Family& run_queue_;
  KeyIndex cpus_;
  std::vector<std::int32_t> first_channel_;
};

std::unique_ptr<Probe> open_cpu(const ProbeContext& context) {
  return std::make_unique<CpuProbe>(context, context.fs.require("/proc/stat", "cpu times cannot be read"));
}

const RegisteredProbe entry{{.name = "cpu",
                             .help = "Time of each cpu by use, context switches, run queue",
                             .families = kFamilies,
                             .open = open_cpu}};

}  // namespace
}  // namespace reveal
