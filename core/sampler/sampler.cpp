#include "core/sampler/sampler.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "core/job/cgroup.h"
#include "core/job/job_cpus.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/config_keys.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

std::string seconds_text(std::int64_t nanoseconds) {
  std::string text = std::to_string(static_cast<double>(nanoseconds) / kSecond);
  return (nanoseconds > 0 ? "+" : "") + text.substr(0, text.size() - 3) + " s";
}

/// After how many ticks a probe looks again.
std::int64_t ticks_of(std::chrono::nanoseconds period, std::chrono::nanoseconds interval) noexcept {
  return period <= kDefaultInterval ? 1 : std::max<std::int64_t>(1, (period + interval / 2) / interval);
}

/// The same while something is unusual; 0: as usual.
std::int64_t faster_ticks_of(std::chrono::nanoseconds faster, std::int64_t every, std::chrono::nanoseconds interval) {
  if (faster.count() <= 0) return 0;
  const std::int64_t ticks = std::max<std::int64_t>(1, (faster + interval / 2) / interval);
  return ticks < every && every % ticks == 0 ? ticks : 0;
}

bool is_named(std::string_view probe, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), probe) != names.end();
}

}  // namespace

std::vector<ProbeSpec> select_probes(const std::vector<std::string>& names) {
  if (names.empty()) return probes();
  std::vector<ProbeSpec> selected;
  for (const ProbeSpec& spec : probes()) {
    if (is_named(spec.name, names)) selected.push_back(spec);
  }
  std::vector<std::string> known;
  for (const ProbeSpec& spec : probes()) known.emplace_back(spec.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto near = nearest(name, known);
    throw Error("unknown probe \"" + name + "\"" + (near ? "; did you mean \"" + *near + "\"?" : ""));
  }
  return selected;
}

Sampler::Sampler(KernelTree& fs, TraceSink& sink, Options options, TickTime now)
    : fs_(fs), sink_(sink), options_(std::move(options)), host_(Host::look(fs)) {
  if (!options_.metrics_file.empty()) selection_ = MetricSelection::read(options_.metrics_file);
  if (!selection_.everything()) sink_.select(&selection_);
  if (options_.gpu_library.empty()) options_.gpu_library = config_key("gpu", "library").fallback;
  sink_.set_now(now.monotonic_ns);
  sink_.mute(true);
  if (options_.job || fs_.recorded()) {
    job_ = std::move(options_.found_job);
    if (!job_) job_ = std::make_unique<Job>(fs_, host_, options_.job, options_.own_pid);
    job_->update(now);
    if (fs_.recorded() && job_->processes().empty() && fs_.fact("@job/roots", [] { return std::string(); }).empty()) {
      job_.reset();  // recorded without a job
    }
  }
  if (job_) {
    slots_ = std::make_unique<ProcessSlots>(fs_, *job_, sink_);
    slots_->update(now.monotonic_ns);
    find_job_cpus();
  }
  namespaces_ = std::make_unique<NetNamespaces>(fs_, job_.get());
  self_.parts.emplace_back("job tree");
  open_probes({.fs = fs_,
               .host = host_,
               .sink = sink_,
               .period = {},
               .job = job_.get(),
               .slots = slots_.get(),
               .namespaces = namespaces_.get(),
               .self = &self_,
               .job_cpus = job_ ? &job_cpus_ : nullptr,
               .site_metrics = options_.metrics_file,
               .gpu_library = options_.gpu_library,
               .stack = options_.stack || is_named("stack", options_.probes) || is_named("python", options_.probes),
               .stack_forbidden = options_.stack_forbidden,
               .stack_budget = options_.stack_budget,
               .stack_without = options_.stack_without,
               .perf_broker = options_.perf_broker,
               .call_broker = options_.call_broker,
               .pace = &pace_});
  begin_faster_reading(now);
}

void Sampler::begin_faster_reading(TickTime now) {
  constexpr std::chrono::nanoseconds kWindow{kSecond};
  std::string names;
  for (const Opened& each : opened_) {
    if (each.faster_every > 0) names += (names.empty() ? "" : " ") + coverage_[each.coverage].probe;
  }
  const std::int64_t window_ticks = std::max<std::int64_t>(1, kWindow / options_.interval);
  if (!names.empty()) faster_.emplace(fs_, sink_, std::move(names), window_ticks, now);
}

void Sampler::look_first() {
  first_look_ns_ =
      parse_int(fs_.fact("@sampler/first_look", [] { return std::to_string(read_clock(CLOCK_MONOTONIC)); }));
  for (Opened& each : opened_) each.probe->sample();
  sink_.mute(false);
}

void Sampler::write_first_look() noexcept {
  if (first_look_ns_) sink_.commit_all(*first_look_ns_);
}

void Sampler::open_probes(const ProbeContext& common) {
  for (const ProbeSpec& spec : select_probes(options_.probes)) {
    ProbeContext context = common;
    const std::chrono::nanoseconds period = spec.period_on != nullptr ? spec.period_on(host_) : spec.period;
    const std::int64_t every = ticks_of(period, options_.interval);
    const std::int64_t faster_every =
        options_.faster_reading ? faster_ticks_of(spec.faster_while_unusual, every, options_.interval) : 0;
    context.probe = spec.name;
    context.period = every * options_.interval;
    context.faster = faster_every * options_.interval;
    Coverage fact{.probe = std::string(spec.name)};
    Absence absence = spec.absence;
    const auto selected = [this](const FamilyTable& family) { return selection_.meets(family); };
    try {
      if (std::none_of(spec.families.begin(), spec.families.end(), selected)) {
        throw Absent("none of its metrics was selected (--metrics)", Absence::off);
      }
      opened_.push_back({spec.open(context), every, faster_every, coverage_.size()});
      self_.parts.push_back(spec.name);
    } catch (const Unavailable& why) {
      fact.state = Coverage::State::absent;
      fact.reason = why.what();
      if (const auto* other = dynamic_cast<const Absent*>(&why)) absence = other->absence;
    } catch (const Error& error) {
      throw;
    } catch (const std::exception& error) {
      fact.state = Coverage::State::failed;
      fact.reason = error.what();
    }
    coverage_.push_back(std::move(fact));
    absences_.push_back(absence);
  }
  self_.part_ns.assign(self_.parts.size(), 0);
}

// The cpus that the scheduler lets the job's processes use, within the job's cpuset.
void Sampler::find_job_cpus() {
  const CpuSet allowed = cpus_of_job(fs_, *job_, CpusOf::all);
  const CpuSet owned = CpuSet::of_list(fs_.word(cpuset_path(fs_, *job_)));
  for (const int cpu : host_.cpus_online) {
    if (owned.size() > 0 ? owned.contains(cpu) : allowed.contains(cpu)) job_cpus_.push_back(cpu);
  }
}

void Sampler::sample(const Tick& tick) noexcept {
  sink_.set_now(tick.time.monotonic_ns);
  self_.late_ns = tick.late_ns;
  self_.ticks_missed += tick.missed;
  if (tick.missed > 0) sink_.event("clock", "ticks_missed", std::to_string(tick.missed));
  if (tick.clock_step_ns != 0) sink_.event("clock", "clock_step", seconds_text(tick.clock_step_ns));
  std::int64_t before = read_clock(CLOCK_MONOTONIC);
  if (job_) {
    job_->update(tick.time);
    for (const StepChange& change : job_->take_step_changes()) {
      sink_.event("step " + change.step, change.begun ? "step_begin" : "step_end", "");
    }
    slots_->update(tick.time.monotonic_ns);
    namespaces_->update(tick.time.monotonic_ns);
  }
  pace_.faster = faster_ && faster_->look(tick);
  std::int64_t after = read_clock(CLOCK_MONOTONIC);
  self_.part_ns[0] += after - before;
  for (std::size_t i = 0; i < opened_.size(); ++i) {
    const Opened& each = opened_[i];
    pace_.extra = tick.number % each.every != 0;
    const bool due = !pace_.extra || (pace_.faster && each.faster_every > 0 && tick.number % each.faster_every == 0);
    if (!due) continue;
    before = after;
    each.probe->sample();
    after = read_clock(CLOCK_MONOTONIC);
    self_.part_ns[i + 1] += after - before;
    if (pace_.extra) faster_->count(after - before);
  }
}

void Sampler::close() noexcept {
  if (faster_) faster_->close();
  for (const Opened& each : opened_) each.probe->close();
}

Snapshot Sampler::facts() const {
  Snapshot all;
  for (const Opened& each : opened_) {
    Snapshot facts = each.probe->facts();
    std::move(facts.begin(), facts.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<CheckedProbe> Sampler::checked() const {
  std::vector<CheckedProbe> all;
  for (Coverage& fact : coverage()) all.push_back({std::move(fact), absences_[all.size()]});
  return all;
}

std::vector<Coverage> Sampler::coverage() const {
  std::vector<Coverage> facts = coverage_;
  for (const Opened& each : opened_) {
    if (std::string caveat = each.probe->caveat(); !caveat.empty()) facts[each.coverage].reason = std::move(caveat);
  }
  if (!slots_ || !slots_->main_threads_only()) return facts;
  for (Coverage& fact : facts) {
    if (fact.probe == "process" && fact.state == Coverage::State::ok) {
      fact.reason = "for processes with too many threads, waiting is measured only for the main thread";
    }
  }
  return facts;
}

}  // namespace reveal
