// The contribution of each channel to the score of one window, for a single detector and in its own scale. The report's
// attribution is the evidence that all detectors share (ensemble.h), which names labelled channels more often;
// contributions explain why the detectors disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "postproc/detect/windows/robust_windows.h"

namespace reveal {

/// Per channel of RobustWindows::channels.
struct Contributions {
  std::vector<double> mahalanobis;  // signed; they sum up to the squared distance (of channels in the inner products)
  std::vector<double> neighbours;   // squared difference from the nearest windows, mean over them
  std::vector<double> forest;       // splits that isolated the window, by the channels behind their component; sum 1
};

/// `windows`: of baseline `whole`. One more pass over the telemetry for all of `at` together.
[[nodiscard]] std::vector<Contributions> contributions(const Telemetry& telemetry, const WindowGrid& grid,
                                                       const RobustWindows& windows, std::span<const std::size_t> at,
                                                       std::uint64_t seed);

}  // namespace reveal
