#include "postproc/live/pace.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "postproc/analysis/estimated_iterations.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::string_view kSteps = "stack.steps";
constexpr double kMostError = 0.02;  // standard error of the time of an iteration, as a share of it

}  // namespace

std::string words_of_progress(const Pace& pace) {
  const auto planned = static_cast<double>(pace.planned);
  if (!pace.known() || std::isnan(pace.done) || planned <= 0 || pace.done > planned) return "";
  return fmt::format("iteration {:.0f} of {}{}, {} /s, about {} left", pace.done, pace.planned,
                     pace.estimated ? " (estimated)" : "", number(pace.per_second),
                     duration((planned - pace.done) / pace.per_second));
}

std::optional<Pace> counted_pace(const Telemetry& calls) {
  constexpr double kSeconds = 20;
  const auto newest = static_cast<std::size_t>(kSeconds / calls.step_seconds);
  std::optional<Pace> pace;
  for (std::size_t i = 0; i < calls.channels.size(); ++i) {
    if (calls.channels[i].metric != kSteps) continue;
    const std::span<const double> series = calls.series(i);
    double steps = 0;
    double seconds = 0;
    for (const double value : series.last(std::min(newest, series.size()))) {
      if (std::isnan(value)) continue;
      steps += value;
      seconds += calls.step_seconds;
    }
    if (seconds == 0) continue;
    const double most = pace ? pace->per_second : 0;
    pace = Pace{.per_second = std::max(most, steps / seconds), .estimated = false};
  }
  return pace;
}

std::optional<Pace> estimated_pace(const Telemetry& work, bool from_the_begin) {
  const auto iterations = estimated_iterations(work);
  if (!iterations) return std::nullopt;
  Pace pace{.per_second = 1 / iterations->seconds, .estimated = true};
  const bool certain = iterations->error <= kMostError * iterations->seconds;
  if (from_the_begin && certain && iterations->lasts_seconds) {
    pace.done = *iterations->lasts_seconds / iterations->seconds;
  }
  return pace;
}

std::optional<Pace> live_pace(const LiveTrace& trace) {
  constexpr std::array<std::string_view, 1> kCalls = {"stack/calls"};
  if (const auto calls = trace.block(0, kCalls)) {
    if (auto pace = counted_pace(calls->telemetry)) {
      if (const auto steps = trace.rows().count_of(kSteps)) pace->done = static_cast<double>(*steps);
      return pace;
    }
  }
  const auto work = trace.block(0, kFamiliesWithRhythm);
  return work ? estimated_pace(work->telemetry, work->starts) : std::nullopt;
}

}  // namespace reveal
