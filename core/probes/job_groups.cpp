// Limits and their events of the control groups of the job, its steps, tasks and containers: which of them ran into
// its memory limit, and how far the others are from theirs.
// https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
#include <algorithm>
#include <array>
#include <set>

#include "core/job/cgroup.h"
#include "core/job/sub_cgroups.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::job_groups {
namespace {

constexpr std::size_t kMostGroups = 16;
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 has a huge number for "none"

constexpr MetricHelp kMemory[] = {
    {"group.memory", "Memory charged to the group, page cache included."},
    {"group.memory_limit",
     "Memory limit of the group, above which the kernel kills one of its processes; missing without a limit."},
    {"group.memory_soft_limit", "Soft limit, above which the kernel slows the group down; missing without a limit."},
    {"group.memory_peak", "Most memory charged so far."},
    {"group.swap", "Swap charged to the group."},
    {"group.swap_limit", "Swap limit of the group; missing without a limit."},
};
constexpr MetricHelp kEvents[] = {
    {"group.memory_soft_limit_hits", "Number of times the group was slowed down because of its soft limit."},
    {"group.memory_limit_hits", "Number of allocations that reached the limit."},
    {"group.out_of_memory", "Number of times no memory could be reclaimed at the limit."},
    {"group.killed_for_memory", "Processes killed because of the limit."},
    {"group.tasks_limit_hits", "Number of times the limit prevented a new process or thread."},
};
constexpr MetricHelp kTasks[] = {
    {"group.tasks", "Processes and threads of the group."},
    {"group.tasks_limit", "Limit of processes and threads; missing without a limit."},
};
constexpr MetricHelp kCpu[] = {
    {"group.cpu_quota", "CPU time that the group may use per second; missing without a limit."}};

constexpr FamilyTable kFamilies[] = {
    {"job/group_memory", Kind::gauge, Unit::bytes, Scope::cgroup, Subsystem::memory,
     "Memory and its limits of the job's control groups", "memory.current, memory.max, ...", kMemory},
    {"job/group_events", Kind::event, Unit::count, Scope::cgroup, Subsystem::memory,
     "Limits that the job's control groups ran into", "memory.events, memory.oom_control, pids.events", kEvents},
    {"job/group_tasks", Kind::gauge, Unit::count, Scope::cgroup, Subsystem::process,
     "Tasks and their limits of the job's control groups", "pids.current, pids.max", kTasks},
    {"job/group_cpu", Kind::gauge, Unit::nanoseconds, Scope::cgroup, Subsystem::cpu,
     "CPU limits of the job's control groups", "cpu.max, cpu.cfs_quota_us", kCpu},
};

enum class Form : std::uint8_t {
  number,  // one number, or "max"
  keyed,   // "key number"
  quota,   // "quota period" in microseconds, or "max period"
};

// One value: where it stands under which version. `controller` is the version 1 one; "" is version 2.
struct Source {
  std::string_view controller;
  std::string_view file;
  Form form;
  std::string_view key;
  std::size_t family;
  std::size_t metric;
};
constexpr std::array kSources = {
    Source{"", "memory.current", Form::number, "", 0, 0},
    Source{"", "memory.max", Form::number, "", 0, 1},
    Source{"", "memory.high", Form::number, "", 0, 2},
    Source{"", "memory.peak", Form::number, "", 0, 3},
    Source{"", "memory.swap.current", Form::number, "", 0, 4},
    Source{"", "memory.swap.max", Form::number, "", 0, 5},
    Source{"", "memory.events", Form::keyed, "high", 1, 0},
    Source{"", "memory.events", Form::keyed, "max", 1, 1},
    Source{"", "memory.events", Form::keyed, "oom", 1, 2},
    Source{"", "memory.events", Form::keyed, "oom_kill", 1, 3},
    Source{"", "pids.events", Form::keyed, "max", 1, 4},
    Source{"", "pids.current", Form::number, "", 2, 0},
    Source{"", "pids.max", Form::number, "", 2, 1},
    Source{"", "cpu.max", Form::quota, "", 3, 0},
    Source{"memory", "memory.usage_in_bytes", Form::number, "", 0, 0},
    Source{"memory", "memory.limit_in_bytes", Form::number, "", 0, 1},
    Source{"memory", "memory.max_usage_in_bytes", Form::number, "", 0, 3},
    Source{"memory", "memory.failcnt", Form::number, "", 1, 1},
    Source{"memory", "memory.oom_control", Form::keyed, "oom_kill", 1, 3},
    Source{"pids", "pids.events", Form::keyed, "max", 1, 4},
    Source{"pids", "pids.current", Form::number, "", 2, 0},
    Source{"pids", "pids.max", Form::number, "", 2, 1},
    Source{"cpu", "cpu.cfs_quota_us", Form::quota, "cpu.cfs_period_us", 3, 0},
};

std::int64_t number_in(std::string_view text) noexcept {
  std::string_view line;
  std::int64_t value = 0;
  if (!next_line(text, line) || !parse_counter(cut_word(line), value) || value >= kNoLimit) return kMissing;
  return value;
}

std::int64_t keyed_in(std::string_view text, std::string_view key) noexcept {
  std::string_view line;
  while (next_line(text, line)) {
    std::int64_t value = 0;
    if (cut_word(line) == key && parse_counter(cut_word(line), value)) return value;
  }
  return kMissing;
}

/// CPU time in a second; `period_text` is "" where both numbers stand in one line.
std::int64_t quota_in(std::string_view text, std::string_view period_text) noexcept {
  std::string_view line;
  std::int64_t quota = 0;
  std::int64_t period = 0;
  if (!next_line(text, line) || !parse_counter(cut_word(line), quota)) return kMissing;  // "max", or -1
  if (!period_text.empty() && !next_line(period_text, line)) return kMissing;
  if (!parse_counter(cut_word(line), period) || period <= 0) return kMissing;
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(quota, kSecond, &scaled)) return kMissing;
  return scaled / period;
}

class JobGroupsProbe final : public Probe {
 public:
  explicit JobGroupsProbe(const ProbeContext& context) : context_(context), sub_groups_(context.fs) {
    own_ = cgroups_of(context.fs, *context.job);
    add_group("");
    follow_groups();
    if (values_.empty()) throw Unavailable("the job's control group has no limits");
    for (std::size_t i = 0; i < families_.size(); ++i) families_[i] = &context.family(kFamilies[i]);
  }

  void sample() noexcept override {
    follow_groups();
    for (Family* family : families_) family->begin();
    for (Value& value : values_) {
      const std::int64_t now = read(value);
      if (now == kMissing) continue;
      if (value.channel == Family::kNoChannel) {  // a limit that is none has no channel
        const Source& source = *value.source;
        value.channel = families_[source.family]->add(kFamilies[source.family].metrics[source.metric].name, value.group,
                                                      value.role);
      }
      families_[value.source->family]->set(value.channel, now);
    }
    for (Family* family : families_) family->commit();
  }

 private:
  struct Value {
    const Source* source = nullptr;
    std::string group;  // "job", or relative to it: "step_0/task_0"
    std::string role;
    KernelFile file;
    KernelFile period;
    std::int32_t channel = Family::kNoChannel;
  };

  static std::int64_t read(Value& value) noexcept {
    const Source& source = *value.source;
    const std::string_view text = value.file.read();
    if (text.empty()) return kMissing;
    if (source.form == Form::number) return number_in(text);
    if (source.form == Form::keyed) return keyed_in(text, source.key);
    return quota_in(text, value.period ? value.period.read() : std::string_view());
  }

  void follow_groups() {
    sub_groups_.look(context_.sink.now(), *context_.job);
    if (sub_groups_.groups().size() == known_.size()) return;
    for (const std::string& group : sub_groups_.groups()) {
      if (known_.size() >= kMostGroups || !known_.insert(group).second) continue;
      add_group(group);
    }
  }

  // Members that are not the job's make a group's numbers the node's.
  void add_group(const std::string& relative) {
    for (const Cgroup& group : own_) {
      if (group.folder.empty() || (group.path == "/" && relative.empty())) continue;
      const std::string folder = group.folder + (relative.empty() ? "" : '/' + relative);
      const bool shared = relative.empty() && !why_not_the_jobs(context_.fs, *context_.job, group).empty();
      for (const Source& source : kSources) {
        const bool fits = source.controller.empty() ? group.controllers.empty() : group.has(source.controller);
        if (fits) add_value(source, folder, relative.empty() ? "job" : relative, shared ? "node" : "job");
      }
    }
  }

  void add_value(const Source& source, const std::string& folder, const std::string& group, const std::string& role) {
    Value value{.source = &source, .group = group, .role = role};
    value.file = context_.fs.open(folder + '/' + std::string(source.file), 512);
    if (value.file.read().empty()) return;
    if (source.form == Form::quota && !source.key.empty()) {
      value.period = context_.fs.open(folder + '/' + std::string(source.key), 64);
    }
    values_.push_back(std::move(value));
  }

  ProbeContext context_;
  SubCgroups sub_groups_;
  std::vector<Cgroup> own_;
  std::set<std::string> known_;
  std::array<Family*, std::size(kFamilies)> families_{};
  std::vector<Value> values_;
};

std::unique_ptr<Probe> open_job_groups(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<JobGroupsProbe>(context);
}

const RegisteredProbe entry{
    {.name = "job_groups",
     .help = "Memory, task and cpu limits of the job's control groups, and how often they were reached",
     .period = 1s,
     .families = kFamilies,
     .open = open_job_groups,
     .remedy = "run the command under reveal-run or srun --reveal; on your own machine: systemd-run --user --scope "
               "reveal-run -- COMMAND"}};

}  // namespace
}  // namespace reveal::probe::job_groups
