// Memory traffic, energy, sleep states and real clocks of the whole node, from the kernel's own PMUs: no access to the
// processors' registers is needed.
// https://docs.kernel.org/admin-guide/perf/index.html
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>

#include "core/kernel_text/kernel_words.h"
#include "core/pmu/counter_group.h"
#include "core/pmu/counting_scope.h"
#include "core/pmu/perf_broker.h"
#include "core/pmu/platform_events.h"
#include "core/sampler/probe.h"

namespace reveal::probe::perf_platform {
namespace {

constexpr std::size_t kMostReasons = 4;
constexpr std::size_t kMostTogether = 4;  // events of one source: no PMU of these has fewer counters

/// Sources of one kind in one place, for example the memory channels of a package: the same events, summed.
struct Place {
  std::vector<CounterGroup> groups;
  std::vector<const PlatformEvent*> events;  // events of the first source: all sources count the same
  std::vector<std::int32_t> channels;
  ScaledSums sums{0};
  bool known = false;  // all were read in this tick
};

class PlatformEvents final : public Probe {
 public:
  explicit PlatformEvents(const ProbeContext& context)
      : events_(platform_events(context.fs, context.host.cpus_online)),
        paranoid_(perf_event_paranoid(context.fs)),
        open_(here_or_by(context.perf_broker)),
        job_(context.perf_broker >= 0 ? context.job : nullptr) {
    if (events_.empty()) throw Unavailable("this kernel has no PMU for memory traffic, energy, sleep states or clocks");
    if (!context.fs.live()) throw Unavailable(what_would_be_counted());
    open_all();
    std::erase_if(places_, [](const Place& place) { return place.events.empty(); });
    if (places_.empty()) throw Unavailable(reasons());
    for (const Place& place : places_) {
      for (const CounterGroup& group : place.groups) context.fs.spare_files(static_cast<int>(group.events()));
    }
    for (const FamilyTable& table : platform_families()) families_.push_back(&context.family(table));
    for (Place& place : places_) {
      for (const PlatformEvent* event : place.events) {
        place.channels.push_back(channel_of(*event));
      }
      place.sums = ScaledSums(place.events.size(), ScaledSums::Enabled::always);
    }
  }

  void sample() noexcept override {
    for (Family* family : families_) family->begin();
    if (job_ != nullptr && job_->saw_other_job()) places_.clear();  // closes them
    for (Place& place : places_) {
      place.known =
          std::all_of(place.groups.begin(), place.groups.end(), [](CounterGroup& group) { return group.read(); });
      if (place.known) place.sums.follow(place.groups);
      for (std::size_t i = 0; i < place.events.size(); ++i) add(place, i);
    }
    for (const Place& place : places_) forget_partial_sums(place);
    for (Family* family : families_) family->commit();
  }

  [[nodiscard]] std::string caveat() const override {
    if (places_.empty()) return "counted until another job started on the node";
    return errors_.empty() ? "" : reasons();
  }

 private:
  static OpenPerf here_or_by(int broker) {
    return [broker](const PerfRequest& request) {
      PerfOpened opened = open_perf_event(request);
      return opened.error == EACCES && broker >= 0 ? perf_broker_client(broker)(request) : std::move(opened);
    };
  }

  void open_all() {
    std::size_t files_left = files_for_counters();
    std::map<std::string, std::size_t> known;
    std::size_t part = 0;  // place among the events of a source on a cpu
    for (std::size_t begin = 0; begin < events_.size();) {
      const PlatformEvent& first = events_[begin];
      std::size_t end = begin;
      const auto same = [&](const PlatformEvent& other) {
        return other.source == first.source && other.cpu == first.cpu;
      };
      while (end < events_.size() && end - begin < kMostTogether && same(events_[end])) ++end;
      part = begin > 0 && same(events_[begin - 1]) ? part + 1 : 0;
      const std::string kind = first.source.substr(0, first.source.find_last_not_of("0123456789") + 1);
      const auto [at, added] =
          known.try_emplace(kind + ' ' + first.instance + ' ' + std::to_string(part), places_.size());
      if (added) places_.emplace_back();
      open_source(places_[at->second], std::span(events_).subspan(begin, end - begin), added, files_left);
      begin = end;
    }
  }

  void open_source(Place& place, std::span<const PlatformEvent> events, bool first, std::size_t& files_left) {
    if (!first && place.events.empty()) return;
    CounterGroup group({.cpu = events.front().cpu});
    std::vector<const PlatformEvent*> counted;
    for (const PlatformEvent& event : events) {
      const auto same = [&](const PlatformEvent* other) { return other->event.config == event.event.config; };
      if (!first && std::none_of(place.events.begin(), place.events.end(), same)) continue;
      const int error = files_left == 0 ? EMFILE : group.add(open_, event.event, false);
      if (error == 0) {
        --files_left;
        counted.push_back(&event);
      } else {
        errors_.try_emplace(std::string(event.metric), error);
      }
    }
    if (first) {
      place.events = counted;
    } else if (counted.size() < place.events.size()) {
      place.events.clear();  // a part of the sum is missing
      place.groups.clear();
      return;
    }
    if (counted.empty()) return;
    group.start();
    place.groups.push_back(std::move(group));
  }

  std::int32_t channel_of(const PlatformEvent& event) {
    Family& family = *families_[event.family];
    const auto& known = family.channels();
    for (std::size_t i = 0; i < known.size(); ++i) {
      const ChannelKey& key = known[i];
      if (key.metric == event.metric && key.instance == event.instance) return static_cast<std::int32_t>(i);
    }
    return family.add(event.metric, event.instance);
  }

  // Several events may be parts of one metric: the channels of a memory controller.
  void add(const Place& place, std::size_t i) noexcept {
    if (!place.known || place.sums.total(i) == kMissing) return;
    Family& family = *families_[place.events[i]->family];
    const std::int64_t before = family.row()[static_cast<std::size_t>(place.channels[i])];
    const std::int64_t value = std::llround(static_cast<double>(place.sums.total(i)) * place.events[i]->factor);
    family.set(place.channels[i], before == kMissing ? value : wrapping_sum(before, value));
  }

  void forget_partial_sums(const Place& place) noexcept {
    for (std::size_t i = 0; i < place.events.size(); ++i) {
      if (place.known && place.sums.total(i) != kMissing) continue;
      families_[place.events[i]->family]->set(place.channels[i], kMissing);
    }
  }

  [[nodiscard]] std::string what_would_be_counted() const {
    std::string text = "a copy of another host's files; that host could count";
    std::string last;
    for (const PlatformEvent& event : events_) {
      if (event.metric == last || text.find(event.metric) != std::string::npos) continue;
      text += (last.empty() ? " " : ", ") + std::string(event.metric);
      last = event.metric;
    }
    return text;
  }

  [[nodiscard]] std::string reasons() const {
    std::map<int, std::vector<std::string>> by_error;
    for (const auto& [metric, error] : errors_) by_error[error].push_back(metric);
    std::string text;
    for (const auto& [error, metrics] : by_error) {
      text += text.empty() ? "not counted: " : "; not counted: ";
      for (std::size_t i = 0; i < metrics.size() && i < kMostReasons; ++i) text += (i > 0 ? ", " : "") + metrics[i];
      if (metrics.size() > kMostReasons) text += " and " + std::to_string(metrics.size() - kMostReasons) + " more";
      text += " (" + why_not_counted(error, paranoid_) + ')';
    }
    return text;
  }

  std::vector<PlatformEvent> events_;
  std::string paranoid_;
  OpenPerf open_;
  const Job* job_;                     // the broker opens counters of the whole node only for it
  std::map<std::string, int> errors_;  // per metric, the first
  std::vector<Place> places_;
  std::vector<Family*> families_;
};

std::unique_ptr<Probe> open_platform(const ProbeContext& context) {
  return std::make_unique<PlatformEvents>(context);
}

const RegisteredProbe entry{
    {.name = "perf_platform",
     .help = "Memory traffic, energy, sleep states and clocks of the node, from the kernel's PMUs",
     .period = 1s,
     .families = platform_families(),
     .open = open_platform,
     .remedy = "virtual machines have none; on hardware, admin: CAP_PERFMON for reveal-collect, or "
               "sysctl kernel.perf_event_paranoid=0",
     .absence = Absence::hardware}};

}  // namespace
}  // namespace reveal::probe::perf_platform
