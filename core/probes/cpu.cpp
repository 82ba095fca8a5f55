// /proc/stat: where the time of each cpu went, and counts of the scheduler.
// https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat
#include <algorithm>
#include <array>

#include "core/job/cpu_set.h"
#include "core/kernel_text/key_index.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/pace.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::cpu {
namespace {

// In the order of the columns. The kernel counts guest time in user, too; it is stored as counted.
constexpr MetricHelp kTimes[] = {
    {"cpu.user", "Running user code, guests included."},
    {"cpu.nice", "Running user code at lowered priority."},
    {"cpu.system", "Running the kernel for processes."},
    {"cpu.idle", "Idle."},
    {"cpu.iowait", "Idle while a task of this cpu waited for a disk."},
    {"cpu.irq", "Serving interrupts."},
    {"cpu.softirq", "Serving deferred interrupt work."},
    {"cpu.steal", "Wanted to run, but the hypervisor ran something else."},
    {"cpu.guest", "Running a guest of this host."},
    {"cpu.guest_nice", "Running a guest at lowered priority."},
    {"cpu.<use>_spread", "On more than 64 cpus: standard deviation over them of each of the above."},
    {"cpu.<use>_max", "On more than 64 cpus: value of the cpu with the highest value."},
};
constexpr std::size_t kColumns = std::size(kTimes) - 2;
constexpr MetricHelp kPlaces[] = {{"cpu.<use>_max_cpu", "On more than 64 cpus: the cpu with the highest value."}};
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
    {"cpu/times_places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu, "Cpus with the most of each use",
     "/proc/stat", kPlaces},
};

// Measured on 96 cores: 0.8 to 1.1 ms for one read.
constexpr auto kCostPerCpu = std::chrono::microseconds(10);

class CpuProbe final : public Probe {
 public:
  CpuProbe(const ProbeContext& context, KernelFile file)
      : context_(context),
        file_(std::move(file)),
        times_(context, kFamilies[0], kFamilies[3]),
        text_(!times_.summarised()),
        activity_(context.family(kFamilies[1])),
        run_queue_(context.family(kFamilies[2])) {
    for (std::size_t i = 0; i < kColumns; ++i) times_.add_metric(kTimes[i].name);
    for (const MetricHelp& metric : kActivity) activity_.add(metric.name);
    for (const MetricHelp& metric : kRunQueue) run_queue_.add(metric.name);
  }

  void sample() noexcept override {
    if (text_.update(file_.read())) {
      times_.family().commit();
    } else {
      times_.begin();
      activity_.begin();
      run_queue_.begin();
      parse();
      times_.commit();
    }
    activity_.commit();
    run_queue_.commit();
  }

  [[nodiscard]] std::string caveat() const override {
    return context_.host.tick_ns == kMissing ? context_.host.caveat : "";
  }

 private:
  void parse() {
    cpus_.rewind();
    CpuSet online;
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view key = cut_word(line);
      if (key.size() > 3 && key.substr(0, 3) == "cpu") {
        online.insert(parse_cpu(key, line));
      } else if (!parse_total(key, line, activity_, kActivityKeys) &&
                 !parse_total(key, line, run_queue_, kRunQueueKeys)) {
        text_.ignore(line);
      }
    }
    follow(online);
  }

  /// A cpu that is offline has no line.
  void follow(const CpuSet& online) {
    if (online.size() == 0 || online == online_) return;
    if (online_.size() > 0) context_.sink.event("cpus", "cpus_online", online.list());
    online_ = online;
  }

  /// Returns its number.
  int parse_cpu(std::string_view key, std::string_view line) {
    const std::size_t known = cpus_.find(key);
    if (known == KeyIndex::kUnknown) {
      cpus_.add(key);
      numbers_.push_back(static_cast<int>(parse_int(key.substr(3)).value_or(-1)));
    }
    const int cpu = numbers_[known == KeyIndex::kUnknown ? numbers_.size() - 1 : known];
    for (std::size_t column = 0; column < kColumns; ++column) {
      const std::string_view word = cut_word(line);
      std::int64_t ticks = 0;
      if (!parse_counter(word, ticks)) return cpu;
      const std::int32_t channel = times_.set(column, cpu, scaled(ticks, context_.host.tick_ns));
      if (!times_.summarised()) text_.set(word, times_.family(), channel, context_.host.tick_ns);
    }
    return cpu;
  }

  template <std::size_t Size>
  bool parse_total(std::string_view key, std::string_view line, Family& family,
                   const std::array<std::string_view, Size>& keys) {
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) return false;
    text_.set(cut_word(line), family, static_cast<std::int32_t>(found - keys.begin()));
    text_.ignore(line);  // each interrupt's own number
    return true;
  }

  ProbeContext context_;
  KernelFile file_;
  PerCpu times_;
  DiffedText text_;
  Family& activity_;
  Family& run_queue_;
  KeyIndex cpus_;
  std::vector<int> numbers_;
  CpuSet online_;
};

std::unique_ptr<Probe> open_cpu(const ProbeContext& context) {
  return std::make_unique<CpuProbe>(context, context.fs.require("/proc/stat", "cpu times cannot be read"));
}

std::chrono::nanoseconds cpu_period(const Host& host) {
  return paced(host.cpus_online.size(), kCostPerCpu);
}

const RegisteredProbe entry{{.name = "cpu",
                             .help = "Time of each cpu by use, context switches, run queue (less often on many cpus)",
                             .families = kFamilies,
                             .open = open_cpu,
                             .period_on = cpu_period}};

}  // namespace
}  // namespace reveal::probe::cpu
