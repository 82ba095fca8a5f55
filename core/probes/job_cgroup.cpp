// The job's control group, version 1 or 2: resources that the kernel charges to the job as a whole, and limits that
// hold it back.
// https://docs.kernel.org/admin-guide/cgroup-v2.html
#include <array>

#include "core/job/cgroup.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::job_cgroup {
namespace {

constexpr MetricHelp kTimes[] = {
    {"cgroup.cpu_usage", "CPU time charged to the job."},
    {"cgroup.cpu_throttled_time", "Time the job was throttled by its CPU quota."},
    {"cgroup.cpu_some", "At least one task of the job waited for a cpu."},
    {"cgroup.cpu_full", "All tasks of the job waited for a cpu."},
    {"cgroup.io_some", "At least one task of the job waited for io."},
    {"cgroup.io_full", "All tasks of the job waited for io."},
    {"cgroup.memory_some", "At least one task of the job waited for memory."},
    {"cgroup.memory_full", "All tasks of the job waited for memory."},
};
constexpr MetricHelp kEvents[] = {
    {"cgroup.cpu_throttled_periods", "Periods in which the CPU quota ran out."},
};
constexpr MetricHelp kMemory[] = {
    {"cgroup.memory_current", "Memory charged to the job, page cache included."},
};
constexpr MetricHelp kIo[] = {
    {"cgroup.read_bytes", "Bytes the job read from block devices."},
    {"cgroup.write_bytes", "Bytes the job wrote to block devices."},
};
constexpr MetricHelp kRequests[] = {
    {"cgroup.reads", "Reads of the job from block devices."},
    {"cgroup.writes", "Writes of the job to block devices."},
};
constexpr FamilyTable kFamilies[] = {
    {"job/cgroup_time", Kind::counter, Unit::nanoseconds, Scope::cgroup, Subsystem::cpu, "CPU time of the job's cgroup",
     "cpu.stat, cpuacct.usage, *.pressure", kTimes},
    {"job/cgroup_events", Kind::counter, Unit::count, Scope::cgroup, Subsystem::cpu, "Events of the job's cgroup",
     "cpu.stat", kEvents},
    {"job/cgroup_memory", Kind::gauge, Unit::bytes, Scope::cgroup, Subsystem::memory, "Memory of the job's cgroup",
     "memory.current, memory.usage_in_bytes", kMemory},
    {"job/cgroup_io", Kind::counter, Unit::bytes, Scope::cgroup, Subsystem::storage, "Block io of the job's cgroup",
     "io.stat, blkio.throttle.io_service_bytes", kIo},
    {"job/cgroup_requests", Kind::counter, Unit::count, Scope::cgroup, Subsystem::storage,
     "Block requests of the job's cgroup", "io.stat, blkio.throttle.io_serviced", kRequests},
};

enum class Form : std::uint8_t {
  number,    // one number
  keyed,     // "key number"
  pressure,  // "some avg10=... total=N"
  devices,   // "8:0 rbytes=1 wbytes=2": summed over devices
  services,  // "8:0 Read 1": summed over devices
};

// One value: where it stands under which version. `controller` is the version 1 one; "" is version 2.
struct Source {
  std::string_view controller;
  std::string_view file;
  Form form;
  std::string_view key;
  std::size_t family;
  std::int32_t metric;
  std::int64_t scale;
};
constexpr std::array kSources = {
    Source{"", "cpu.stat", Form::keyed, "usage_usec", 0, 0, 1000},
    Source{"", "cpu.stat", Form::keyed, "throttled_usec", 0, 1, 1000},
    Source{"", "cpu.stat", Form::keyed, "nr_throttled", 1, 0, 1},
    Source{"", "cpu.pressure", Form::pressure, "some", 0, 2, 1000},
    Source{"", "cpu.pressure", Form::pressure, "full", 0, 3, 1000},
    Source{"", "io.pressure", Form::pressure, "some", 0, 4, 1000},
    Source{"", "io.pressure", Form::pressure, "full", 0, 5, 1000},
    Source{"", "memory.pressure", Form::pressure, "some", 0, 6, 1000},
    Source{"", "memory.pressure", Form::pressure, "full", 0, 7, 1000},
    Source{"", "memory.current", Form::number, "", 2, 0, 1},
    Source{"", "io.stat", Form::devices, "rbytes", 3, 0, 1},
    Source{"", "io.stat", Form::devices, "wbytes", 3, 1, 1},
    Source{"", "io.stat", Form::devices, "rios", 4, 0, 1},
    Source{"", "io.stat", Form::devices, "wios", 4, 1, 1},
    Source{"cpuacct", "cpuacct.usage", Form::number, "", 0, 0, 1},
    Source{"cpu", "cpu.stat", Form::keyed, "throttled_time", 0, 1, 1},
    Source{"cpu", "cpu.stat", Form::keyed, "nr_throttled", 1, 0, 1},
    Source{"memory", "memory.usage_in_bytes", Form::number, "", 2, 0, 1},
    Source{"blkio", "blkio.throttle.io_service_bytes_recursive", Form::services, "Read", 3, 0, 1},
    Source{"blkio", "blkio.throttle.io_service_bytes_recursive", Form::services, "Write", 3, 1, 1},
    Source{"blkio", "blkio.throttle.io_serviced_recursive", Form::services, "Read", 4, 0, 1},
    Source{"blkio", "blkio.throttle.io_serviced_recursive", Form::services, "Write", 4, 1, 1},
};

// The value of a source in its text; kMissing if it is not there.
std::int64_t value_in(std::string_view text, const Source& source) noexcept {
  std::string_view line;
  std::int64_t sum = kMissing;
  while (next_line(text, line)) {
    std::int64_t value = 0;
    bool found = false;
    if (source.form == Form::number) {
      found = parse_counter(cut_word(line), value);
    } else if (source.form == Form::keyed) {
      found = cut_word(line) == source.key && parse_counter(cut_word(line), value);
    } else if (source.form == Form::pressure) {
      found = cut_word(line) == source.key;
      const std::size_t total = line.rfind("total=");
      found = found && total != std::string_view::npos && parse_counter(line.substr(total + 6), value);
    } else if (source.form == Form::services) {
      skip_words(line, 1);
      found = cut_word(line) == source.key && parse_counter(cut_word(line), value);
    } else {
      for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line)) {
        const std::size_t equals = word.find('=');
        if (word.substr(0, equals) != source.key || equals == std::string_view::npos) continue;
        found = parse_counter(word.substr(equals + 1), value);
      }
    }
    if (!found) continue;
    sum = wrapping_sum(sum == kMissing ? 0 : sum, value);
    if (source.form != Form::devices && source.form != Form::services) return sum;
  }
  return sum;
}

class CgroupProbe final : public Probe {
 public:
  explicit CgroupProbe(const ProbeContext& context) {
    std::string why = "the job's processes have no cgroup";
    for (const Cgroup& group : cgroups_of(context.fs, *context.job)) {
      const std::string obstacle = why_not_the_jobs(context.fs, *context.job, group);
      if (obstacle.empty()) {
        open_sources(context.fs, group);
      } else if (why.empty() || group.controllers.empty() || group.has("cpuacct")) {
        why = obstacle;
      }
    }
    if (texts_.empty()) throw Unavailable(why);
    for (std::size_t i = 0; i < families_.size(); ++i) {
      families_[i] = &context.family(kFamilies[i]);
      for (std::size_t metric = 0; metric < kFamilies[i].metrics.size(); ++metric) {
        if (!offered_[i][metric]) continue;
        channels_[i][metric] = families_[i]->add(kFamilies[i].metrics[metric].name, "", "job");
      }
    }
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    for (Text& text : texts_) {
      const std::string_view read = text.file.read();
      for (const Source* source : text.sources) {
        const std::int64_t value = value_in(read, *source);
        if (value == kMissing) continue;
        families_[source->family]->set(channels_[source->family][static_cast<std::size_t>(source->metric)],
                                       scaled(value, source->scale));
      }
    }
    for (Family* family : families_) family->commit();
  }

 private:
  static constexpr std::size_t kMostMetrics = 8;
  struct Text {
    KernelFile file;
    std::vector<const Source*> sources;
  };

  void open_sources(KernelTree& fs, const Cgroup& group) {
    for (const Source& source : kSources) {
      const bool fits = source.controller.empty() ? group.controllers.empty() : group.has(source.controller);
      if (!fits || offered_[source.family][static_cast<std::size_t>(source.metric)]) continue;
      const std::string path = group.folder + '/' + std::string(source.file);
      Text* text = nullptr;
      for (Text& each : texts_) {
        if (each.file.path() == path) text = &each;
      }
      if (text == nullptr) {
        KernelFile file = fs.open(path);
        if (file.read().empty()) continue;
        texts_.push_back({std::move(file), {}});
        text = &texts_.back();
      }
      // A device that was never used has no line yet; everything else that is missing now stays missing.
      const bool may_come = source.form == Form::devices || source.form == Form::services;
      if (!may_come && value_in(text->file.read(), source) == kMissing) continue;
      text->sources.push_back(&source);
      offered_[source.family][static_cast<std::size_t>(source.metric)] = true;
    }
  }

  std::array<Family*, std::size(kFamilies)> families_{};
  std::array<std::array<bool, kMostMetrics>, std::size(kFamilies)> offered_{};
  std::array<std::array<std::int32_t, kMostMetrics>, std::size(kFamilies)> channels_{};
  std::vector<Text> texts_;
};

std::unique_ptr<Probe> open_cgroup(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<CgroupProbe>(context);
}

const RegisteredProbe entry{{.name = "job_cgroup",
                             .help = "CPU, memory and io that the kernel charges to the job's control group",
                             .families = kFamilies,
                             .open = open_cgroup,
                             .remedy = "run the command under reveal-run or srun --reveal; on your own machine: "
                                       "systemd-run --user --scope reveal-run -- COMMAND"}};

}  // namespace
}  // namespace reveal::probe::job_cgroup
