// Counters of the kernel without any PMU: cpu time of the job to the nanosecond, context switches, migrations, faults.
// https://man7.org/linux/man-pages/man2/perf_event_open.2.html
#include <linux/perf_event.h>

#include <array>

#include "core/pmu/counted_events.h"
#include "core/sampler/probe.h"

namespace reveal::probe::perf_software {
namespace {

constexpr MetricHelp kTimes[] = {
    {"perf.task_clock", "CPU time of the job counted by perf; if whole cpus are counted, their time."},
    {"perf.cpu_clock", "The same time by the cpus' own clocks."},
};
constexpr MetricHelp kCounts[] = {
    {"perf.context_switches", "Times a task left its cpu, voluntarily or not."},
    {"perf.migrations", "Times a task moved to another cpu."},
    {"perf.page_faults_minor", "Page faults served from memory."},
    {"perf.page_faults_major", "Page faults that needed a read from storage."},
    {"perf.alignment_faults", "Unaligned accesses that the kernel had to perform."},
    {"perf.emulation_faults", "Instructions that the kernel had to emulate."},
};
constexpr FamilyTable kFamilies[] = {
    {"perf/cpu_time", Kind::counter, Unit::nanoseconds, Scope::job, Subsystem::cpu, "CPU time counted by perf",
     "perf_event_open", kTimes},
    {"perf/software", Kind::counter, Unit::count, Scope::job, Subsystem::cpu, "Events counted by the kernel's perf",
     "perf_event_open", kCounts},
};

struct SoftwareEvent {
  std::uint64_t config;
  bool kernel_side;
  std::size_t family, metric;
};
constexpr SoftwareEvent kEvents[] = {
    {PERF_COUNT_SW_TASK_CLOCK, false, 0, 0},       {PERF_COUNT_SW_CPU_CLOCK, false, 0, 1},
    {PERF_COUNT_SW_CONTEXT_SWITCHES, true, 1, 0},  {PERF_COUNT_SW_CPU_MIGRATIONS, true, 1, 1},
    {PERF_COUNT_SW_PAGE_FAULTS_MIN, false, 1, 2},  {PERF_COUNT_SW_PAGE_FAULTS_MAJ, false, 1, 3},
    {PERF_COUNT_SW_ALIGNMENT_FAULTS, false, 1, 4}, {PERF_COUNT_SW_EMULATION_FAULTS, false, 1, 5},
};

std::vector<WantedEvent> wanted_events() {
  std::vector<WantedEvent> wanted;
  for (const SoftwareEvent& event : kEvents) {
    wanted.push_back({.event = {.type = PERF_TYPE_SOFTWARE, .config = event.config}, .kernel_side = event.kernel_side});
  }
  return wanted;
}

std::string_view name_of(const SoftwareEvent& event) {
  return kFamilies[event.family].metrics[event.metric].name;
}

class SoftwareEvents final : public Probe {
 public:
  explicit SoftwareEvents(const ProbeContext& context)
      : events_(context, choose_counting_scope(context), wanted_events()) {
    events_.open();
    if (!events_.any()) throw Unavailable(events_.losses(names()));
    for (std::size_t i = 0; i < std::size(kFamilies); ++i) families_[i] = &context.family(kFamilies[i]);
    for (std::size_t i = 0; i < std::size(kEvents); ++i) {
      channels_[i] = events_.error(i) != 0
                         ? Family::kNoChannel
                         : families_[kEvents[i].family]->add(name_of(kEvents[i]), "", context.job ? "job" : "node");
    }
  }

  void sample() noexcept override {
    events_.sample();
    for (Family* family : families_) family->begin();
    for (std::size_t i = 0; i < std::size(kEvents); ++i) {
      families_[kEvents[i].family]->set(channels_[i], events_.total(i));
    }
    for (Family* family : families_) family->commit();
  }

  [[nodiscard]] std::string caveat() const override { return events_.losses(names()); }

 private:
  static std::vector<std::string_view> names() {
    std::vector<std::string_view> names;
    for (const SoftwareEvent& event : kEvents) names.push_back(name_of(event));
    return names;
  }

  CountedEvents events_;
  std::array<Family*, std::size(kFamilies)> families_{};
  std::array<std::int32_t, std::size(kEvents)> channels_{};
};

std::unique_ptr<Probe> open_software(const ProbeContext& context) {
  return std::make_unique<SoftwareEvents>(context);
}

// Reading a counter of another cpu interrupts it, and it costs as much as three kernel texts here.
std::chrono::nanoseconds software_period(const Host& host) {
  return std::max<std::chrono::nanoseconds>(1s, counting_period(host));
}

const RegisteredProbe entry{{.name = "perf_software",
                             .help = "CPU time, context switches, migrations and faults of the job, counted by perf",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_software,
                             .period_on = software_period,
                             .remedy = "admin: sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON for reveal-collect",
                             .absence = Absence::obtainable}};

}  // namespace
}  // namespace reveal::probe::perf_software
