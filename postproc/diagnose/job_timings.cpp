#include "postproc/diagnose/job_timings.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/signals.h"
#include "postproc/telemetry/call_facts.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Nothing where it did not grow.
std::optional<InsideOutside> growth_of_timing(const JobTiming& timing) {
  constexpr double kLeastGrowth = 0.1;  // share of the usual duration
  constexpr double kClearly = 4;        // standard deviations
  const auto inside = std::span(timing.ns).subspan(timing.at.begin, timing.at.length());
  const auto known = std::count_if(inside.begin(), inside.end(), [](double each) { return !std::isnan(each); });
  if (known == 0 || 2 * known < std::ssize(inside)) return std::nullopt;
  const auto change = inside_outside(timing.ns, timing.at, timing.unusual, timing.window);
  const bool grew = change && change->score >= kClearly && change->excess() >= kLeastGrowth * change->outside;
  return grew ? change : std::nullopt;
}

/// NCCL only puts its calls into the queue of a GPU: their time is not that of the exchange.
bool times_an_exchange(std::string_view function) {
  return waits_for_ranks(function) && call_facts(function).library != CallLibrary::nccl;
}

/// Mean time of the calls on the grid: before one returns, that of the next.
std::vector<double> time_of_calls(std::span<const double> time, std::span<const double> calls) {
  std::vector<double> mean(time.size(), kNaN);
  double next = kNaN;
  for (std::size_t t = time.size(); t-- > 0;) {
    if (std::isnan(time[t]) || std::isnan(calls[t])) {
      next = kNaN;  // they were not counted
    } else if (calls[t] > 0) {
      next = time[t] / calls[t];
    }
    mean[t] = next;
  }
  return mean;
}

/// A step is recorded when it has ended, and may be longer than the time from one row to the next.
std::vector<double> time_of_steps(std::span<const double> recorded, double cell_ns) {
  std::vector<double> time(recorded.begin(), recorded.end());
  double next = kNaN;
  double before_ns = 0;  // from the recorded one back
  for (std::size_t t = time.size(); t-- > 0;) {
    if (!std::isnan(recorded[t])) {
      next = recorded[t];
      before_ns = 0;
    } else {
      before_ns += cell_ns;
      if (before_ns <= next) time[t] = next;
    }
  }
  return time;
}

JobTiming timing_on_grid(const RuleContext& context, std::size_t channel, Interval at,
                         std::span<const Interval> unusual) {
  constexpr double kWindowSeconds = 5;
  const Channel& of = context.telemetry.channels[channel];
  return {.node = context.telemetry.node,
          .metric = of.metric,
          .instance = of.instance,
          .feature = "mean",
          .ns = {},
          .at = at,
          .unusual = {unusual.begin(), unusual.end()},
          .window = context.steps(kWindowSeconds)};
}

std::vector<JobTiming> timings_of_collectives(const RuleContext& context, Interval at,
                                              std::span<const Interval> unusual) {
  std::vector<JobTiming> timings;
  for (const std::size_t channel : context.channels("stack.time")) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const auto calls = context.channels("stack.calls", instance);
    if (calls.empty() || !times_an_exchange(call_instance(instance).function)) continue;
    timings.push_back(timing_on_grid(context, channel, at, unusual));
    timings.back().feature = "mean time of a call";
    timings.back().ns = time_of_calls(context.telemetry.series(channel), context.telemetry.series(calls.front()));
  }
  return timings;
}

std::vector<JobTiming> timings_of_steps(const RuleContext& context, Interval at, std::span<const Interval> unusual) {
  const std::vector<std::size_t> channels = context.channels("stack.step_time");
  std::vector<JobTiming> timings;
  timings.reserve(channels.size());
  for (const std::size_t channel : channels) {
    timings.push_back(timing_on_grid(context, channel, at, unusual));
    timings.back().ns = time_of_steps(context.telemetry.series(channel), 1e9 * context.telemetry.step_seconds);
  }
  return timings;
}

}  // namespace

std::optional<Evidence> grown_timing(std::span<const JobTiming> timings, const TimeSpan& span) {
  const JobTiming* clearest = nullptr;
  InsideOutside change;
  for (const JobTiming& timing : timings) {
    const auto growth = growth_of_timing(timing);
    if (!growth || (clearest != nullptr && growth->score <= change.score)) continue;
    clearest = &timing;
    change = *growth;
  }
  if (clearest == nullptr) return std::nullopt;
  return Evidence{.metric = clearest->metric,
                  .instance = clearest->instance,
                  .node = clearest->node,
                  .feature = clearest->feature,
                  .observed = four_digits(change.inside),
                  .expected = four_digits(change.outside),
                  .unit = "ns",
                  .span = span,
                  .detectors = {},
                  .score = shown_score(change.score)};
}

void add_job_timing(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> unusual) {
  const TimeSpan span = context.span(at.begin, at.end);
  auto grown = grown_timing(timings_of_collectives(context, at, unusual), span);
  if (!grown) grown = grown_timing(timings_of_steps(context, at, unusual), span);
  if (grown) finding.evidence.push_back(*std::move(grown));
}

}  // namespace reveal
