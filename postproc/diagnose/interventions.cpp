#include "postproc/diagnose/interventions.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "postproc/diagnose/signals.h"
#include "postproc/numerics/mean_difference.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

using Outcome = InterventionResult::Outcome;

constexpr std::size_t kMostTries = 8;  // for a rule on a node; the collector makes three
// As the collector measures: core/intervention/trials.h.
constexpr double kSecondsBefore = 10;
constexpr double kSettleSeconds = 2;

struct EndOfTry {
  std::string_view code;
  Outcome outcome;
  std::string_view words;
};
constexpr EndOfTry kEnds[] = {
    {"intervention_kept", Outcome::kept, "This helped, so it stays until the job ends"},
    {"intervention_undone", Outcome::undone, "This did not help, so it was undone"},
    {"intervention_ended", Outcome::not_known,
     "Its effect is not known: the processes ended, or changed it themselves"},
};

struct Try {
  const Event* change = nullptr;
  const Event* decision = nullptr;  // null: the recording ended before
  const EndOfTry* end = nullptr;    // likewise
};

std::vector<Try> tries_of(const RuleContext& context) {
  std::vector<Try> tries;
  for (const Event& event : context.events) {
    if (event.object != context.spec.id) continue;
    if (event.code == "intervention_tried" && tries.size() < kMostTries) tries.push_back({.change = &event});
    const auto* end = std::find_if(std::begin(kEnds), std::end(kEnds),
                                   [&event](const EndOfTry& one) { return one.code == event.code; });
    if (end == std::end(kEnds) || tries.empty() || tries.back().end != nullptr) continue;
    tries.back().decision = &event;
    tries.back().end = end;
  }
  return tries;
}

std::size_t sample_of(const RuleContext& context, double second) {
  const double sample = std::round(second / context.telemetry.step_seconds);
  return static_cast<std::size_t>(std::clamp(sample, 0.0, static_cast<double>(context.telemetry.samples)));
}

/// Means over whole seconds; those of longer steps are the steps.
std::vector<double> second_means(const RuleContext& context, const std::vector<double>& values, double begin,
                                 double end) {
  const std::size_t second = context.steps(1);
  std::vector<double> means;
  for (std::size_t at = sample_of(context, begin); at + second <= sample_of(context, end); at += second) {
    const double mean = mean_inside(values, {at, at + second});
    if (!std::isnan(mean)) means.push_back(mean);
  }
  return means;
}

InterventionEffect effect_on(const RuleContext& context, const std::optional<MetricSeries>& signal, double changed,
                             double decided) {
  InterventionEffect effect;
  if (!signal) return effect;
  effect.metric = signal->metric;
  effect.unit = signal->unit;
  const auto before = second_means(context, signal->values, changed - kSecondsBefore, changed);
  const auto after = second_means(context, signal->values, changed + kSettleSeconds, decided);
  if (!before.empty()) effect.mean_before = arithmetic_mean(before);
  if (!after.empty()) effect.mean_after = arithmetic_mean(after);
  if (const auto change = welch_difference(before, after)) {
    effect.change_low = change->low;
    effect.change_high = change->high;
  }
  return effect;
}

/// ", threads without a cpu 2.98 before and 0.02 after (95 % interval of the change: -3.01 to -2.91)"
std::string words_of(const InterventionEffect& effect, std::string_view subject) {
  if (!effect.mean_before || !effect.mean_after) return "";
  std::string text = fmt::format("{} {} before and {} after", subject, two_decimals(*effect.mean_before),
                                 two_decimals(*effect.mean_after));
  if (effect.change_low && effect.change_high) {
    text += fmt::format(" (95 % interval of the change: {} to {})", two_decimals(*effect.change_low),
                        two_decimals(*effect.change_high));
  }
  return text;
}

InterventionResult result_of(const RuleContext& context, const Try& one) {
  const double changed = context.second_of(*one.change);
  const double end = one.decision != nullptr ? context.second_of(*one.decision) : job_seconds(context);
  InterventionResult result;
  result.node = context.telemetry.node;
  result.span = context.span(sample_of(context, changed), sample_of(context, end));
  result.outcome = one.end != nullptr ? one.end->outcome : Outcome::not_known;
  result.effects = {effect_on(context, rate(context, "job.wait_time", 1e-9, "threads"), changed, end),
                    effect_on(context, rate(context, "job.cpu_time", 1e-9, "cpus"), changed, end)};
  result.sentence =
      fmt::format("At {} UTC, reveal {} on {}", clock_time(result.span.begin_utc_ns), one.change->text, result.node);
  constexpr std::string_view kSubjects[] = {"threads without a cpu", "cpus used"};
  std::string_view before = ": ";
  for (std::size_t i = 0; i < std::size(kSubjects); ++i) {
    const std::string words = words_of(result.effects[i], kSubjects[i]);
    if (!words.empty()) result.sentence += std::string(std::exchange(before, ", ")) + words;
  }
  std::erase_if(result.effects, [](const InterventionEffect& effect) { return effect.metric.empty(); });
  result.sentence +=
      fmt::format(". {}.", one.end != nullptr ? one.end->words : "Its effect is not known: the recording ended before");
  return result;
}

InterventionResult refusal(const RuleContext& context, const Event& event) {
  InterventionResult result;
  result.node = context.telemetry.node;
  const std::size_t at = sample_of(context, context.second_of(event));
  result.span = context.span(at, at);
  result.outcome = Outcome::refused;
  result.sentence = fmt::format("reveal changed nothing on {}: {}.", result.node, event.text);
  return result;
}

}  // namespace

std::vector<InterventionResult> interventions_of(const RuleContext& context) {
  std::vector<InterventionResult> results;
  for (const Try& one : tries_of(context)) results.push_back(result_of(context, one));
  for (const Event& event : context.events) {
    const bool refused = event.object == context.spec.id && event.code == "intervention_refused";
    if (refused && results.empty()) results.push_back(refusal(context, event));
  }
  return results;
}

std::vector<Interval> changed_by_reveal(const RuleContext& context) {
  std::vector<Interval> changed;
  for (const Try& one : tries_of(context)) {
    const bool ended = one.end != nullptr && one.end->outcome != Outcome::kept;
    const double end = ended ? context.second_of(*one.decision) : job_seconds(context);
    const Interval interval{sample_of(context, context.second_of(*one.change)), sample_of(context, end)};
    if (interval.begin < interval.end) changed.push_back(interval);
  }
  return changed;
}

std::vector<double> outside_of(std::vector<double> series, const std::vector<Interval>& intervals) {
  for (const Interval& interval : intervals) {
    for (std::size_t t = interval.begin; t < std::min(interval.end, series.size()); ++t) series[t] = std::nan("");
  }
  return series;
}

}  // namespace reveal
