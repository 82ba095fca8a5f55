// Counters of the processor itself: cycles, instructions, branches, caches, stalls. The counters belong to the user
// first: they are few, and given back when another program needs them.
// https://man7.org/linux/man-pages/man2/perf_event_open.2.html
#include <linux/perf_event.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/pmu/counted_events.h"
#include "core/pmu/event_table.h"
#include "core/pmu/implemented_events.h"
#include "core/pmu/libpfm.h"
#include "core/pmu/profiler_watch.h"
#include "core/sampler/probe.h"

namespace reveal::probe::perf_hardware {
namespace {

constexpr MetricHelp kEvents[] = {
    {"pmu.cycles", "Cycles in which the job ran."},
    {"pmu.instructions", "Instructions executed."},
    {"pmu.reference_cycles", "The same time in cycles of the nominal clock."},
    {"pmu.branches", "Branches."},
    {"pmu.branch_misses", "Mispredicted branches."},
    {"pmu.llc_references", "Requests to the last-level cache."},
    {"pmu.llc_misses", "Requests that missed the last-level cache."},
    {"pmu.l3_stalls", "Cycles without execution while an L3 miss was pending."},
    {"pmu.remote_dram", "Loads served by the memory of another socket."},
    {"pmu.loads", "Loads."},
    {"pmu.stores", "Stores."},
    {"pmu.frontend_stalls", "Cycles without instructions to execute."},
    {"pmu.backend_stalls",
     "Cycles in which no instruction could be executed; the definition differs between processors."},
};
constexpr MetricHelp kShares[] = {
    {"pmu.counted",
     "Share of the time in which a group of these counters was active; values are scaled up accordingly."}};
constexpr FamilyTable kFamilies[] = {
    {"pmu/events", Kind::counter, Unit::count, Scope::job, Subsystem::cpu, "Events counted by the processors",
     "perf_event_open", kEvents},
    {"pmu/counted", Kind::gauge, Unit::percent, Scope::job, Subsystem::cpu, "Counting time of the processors' counters",
     "perf_event_open", kShares},
};

/// Together our groups had a counter for so much of the time: that each had less is because they take turns.
constexpr double kOurOwnTurns = 0.9;

/// libpfm's encoding, if it is installed and has the processor; else our own.
std::vector<HardwareEvent> events_here(Microarchitecture microarchitecture) {
  std::vector<HardwareEvent> events = hardware_events_of(microarchitecture);
  const Libpfm libpfm;
  const std::string pmu(name_of(microarchitecture).libpfm);
  for (HardwareEvent& event : events) {
    if (event.libpfm.empty()) continue;
    if (const auto code = libpfm.encode(pmu + "::" + std::string(event.libpfm))) event.code = *code;
  }
  return events;
}

class HardwareEvents final : public Probe {
 public:
  HardwareEvents(const ProbeContext& context, CountingScope scope, std::vector<HardwareEvent> table)
      : context_(context), table_(std::move(table)), events_(context, std::move(scope), wanted(table_)) {
    events_.open();
    if (!events_.any()) throw Unavailable(events_.losses(names()));
    family_ = &context.family(kFamilies[0]);
    shares_ = &context.family(kFamilies[1]);
    const std::string_view role = context.job != nullptr ? "job" : "node";
    channels_.reserve(table_.size());
    for (std::size_t i = 0; i < table_.size(); ++i) {
      channels_.push_back(events_.error(i) != 0 ? Family::kNoChannel
                                                : family_->add(metric_of(table_[i].signal), "", role));
    }
    for (std::size_t group = 0; group < events_.groups(); ++group) {
      shares_->add("pmu.counted", "group" + std::to_string(group), role);
    }
  }

  void sample() noexcept override {
    step_back_or_forth();
    events_.sample();
    family_->begin();
    for (std::size_t i = 0; i < table_.size(); ++i) family_->set(channels_[i], events_.total(i));
    family_->commit();
    shares_->begin();
    for (std::size_t group = 0; group < events_.groups(); ++group) {
      const double share = events_.counted_share(group);
      if (share >= 0) shares_->set(static_cast<std::int32_t>(group), std::lround(share * 100));
    }
    shares_->commit();
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = events_.losses(names());
    if (watch_.reason().empty()) return text;
    return (text.empty() ? "" : text + "; ") + "not counted for some time: " + watch_.reason();
  }

 private:
  static std::vector<WantedEvent> wanted(const std::vector<HardwareEvent>& table) {
    std::vector<WantedEvent> wanted;
    wanted.reserve(table.size());
    for (const HardwareEvent& event : table) {
      wanted.push_back({.event = event.code, .group = static_cast<std::size_t>(event.group)});
    }
    return wanted;
  }

  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const HardwareEvent& event : table_) names.push_back(metric_of(event.signal));
    return names;
  }

  /// The share of the time that the worst of our groups got; corrected for the time in which our own groups take turns.
  [[nodiscard]] double share_left_to_us() const noexcept {
    double least = -1;
    double all = 0;
    for (std::size_t group = 0; group < events_.groups(); ++group) {
      const double share = events_.counted_share(group);
      if (share < 0) continue;
      all += share;
      if (least < 0 || share < least) least = share;
    }
    return all >= kOurOwnTurns ? std::max(least, kLeastCounted) : least;
  }

  void step_back_or_forth() noexcept {
    const bool back = watch_.step_back(context_.sink.now(), context_.job, share_left_to_us());
    if (back == !events_.is_open()) return;
    if (back) {
      events_.close();
      context_.sink.event("probe perf_hardware", "counters_given_back", watch_.reason());
    } else {
      events_.open();
      context_.sink.event("probe perf_hardware", "counters_taken_again", "");
    }
  }

  ProbeContext context_;
  std::vector<HardwareEvent> table_;
  CountedEvents events_;
  ProfilerWatch watch_;
  Family* family_ = nullptr;
  Family* shares_ = nullptr;
  std::vector<std::int32_t> channels_;
};

std::unique_ptr<Probe> open_hardware(const ProbeContext& context) {
  CountingScope scope = choose_counting_scope(context);
  const PerfTarget target = scope.targets.empty() ? PerfTarget{.task = ::getpid()} : scope.targets.front();
  const PerfEvent cycles{.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES};
  const PerfOpened trial = scope.open({.event = cycles, .target = target, .user_only = scope.user_only});
  if (!trial.fd) throw Unavailable(why_not_counted(trial.error, perf_event_paranoid(context.fs)));
  const Microarchitecture microarchitecture = microarchitecture_of(context.fs);
  if (microarchitecture == Microarchitecture::unknown) {
    scope.note += (scope.note.empty() ? "" : "; ") + std::string("the processor is not in reveal's table of events: ") +
                  "the kernel's generic events for cycles, cache misses and so on are counted";
  }
  std::vector<HardwareEvent> table = events_here(microarchitecture);
  const std::vector<std::string_view> dropped = drop_unimplemented(context.fs, table);
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    if (i == 0)
      scope.note += scope.note.empty() ? "this processor does not count " : "; this processor does not count ";
    scope.note += (i > 0 ? ", " : "") + std::string(dropped[i]);
  }
  return std::make_unique<HardwareEvents>(context, std::move(scope), std::move(table));
}

const RegisteredProbe entry{{.name = "perf_hardware",
                             .help = "Cycles, instructions, branches, caches and stalls of the job",
                             .families = kFamilies,
                             .open = open_hardware,
                             .period_on = counting_period,
                             .remedy =
                                 "a virtual machine needs a virtual PMU from its host; on hardware, admin: sysctl "
                                 "kernel.perf_event_paranoid=1, or CAP_PERFMON for reveal-collect",
                             .absence = Absence::hardware}};

}  // namespace
}  // namespace reveal::probe::perf_hardware
