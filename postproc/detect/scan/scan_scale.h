// The interval scan's clock. Its constants were measured in seconds on 10 Hz telemetry; this turns them into samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace reveal {

struct ScanScale {
  double samples_per_second = 10;
  bool has_start_and_end = true;  // a job with imports and a tear-down, not an excerpt of an endless stream

  [[nodiscard]] std::size_t samples(double seconds) const {
    return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(seconds * samples_per_second)));
  }
};

/// Length of the means outside an interval, with which it is compared; a shorter interval is compared with means of its
/// own length.
inline constexpr double kReferenceSeconds = 5;

/// Slower than one sample per second (server monitoring) a "second" of the scan is two samples, so that the shortest
/// event still has ten, and nothing is trimmed.
[[nodiscard]] inline ScanScale scan_scale(double step_seconds) {
  if (step_seconds > 1) return {.samples_per_second = 2, .has_start_and_end = false};
  return {.samples_per_second = 1 / step_seconds, .has_start_and_end = true};
}

}  // namespace reveal
