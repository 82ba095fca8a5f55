#include "postproc/live/pace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "postproc/analysis/estimated_iterations.h"

namespace reveal {

std::optional<Pace> counted_pace(const Telemetry& calls) {
  constexpr double kSeconds = 20;
  const auto newest = static_cast<std::size_t>(kSeconds / calls.step_seconds);
  std::optional<Pace> pace;
  for (std::size_t i = 0; i < calls.channels.size(); ++i) {
    if (calls.channels[i].metric != "stack.steps") continue;
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
    pace = {.per_second = std::max(most, steps / seconds), .estimated = false};
  }
  return pace;
}

std::optional<Pace> estimated_pace(const Telemetry& work) {
  const auto iterations = estimated_iterations(work);
  if (!iterations) return std::nullopt;
  return Pace{.per_second = 1 / iterations->seconds, .estimated = true};
}

std::optional<Pace> live_pace(const LiveTrace& trace) {
  constexpr std::array<std::string_view, 1> kCalls = {"stack/calls"};
  if (const auto calls = trace.block(0, kCalls)) {
    if (const auto pace = counted_pace(calls->telemetry)) return pace;
  }
  const auto work = trace.block(0, kFamiliesWithRhythm);
  return work ? estimated_pace(work->telemetry) : std::nullopt;
}

}  // namespace reveal
