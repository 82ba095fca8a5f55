// The pipeline of arXiv 2510.26008, sections 4.1 to 4.4, as literally as the text allows; the default pipeline borrows
// its three window detectors for display.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "postproc/detect/paper/detector.h"
#include "postproc/detect/pipeline.h"

namespace reveal {

/// What the three detectors say about each window of the pruned channels' features.
struct WindowVotes {
  WindowGrid grid;
  std::vector<std::size_t> channels;  // retained by pruning
  FeatureMatrix z;                    // standardised features of those channels
  std::vector<Method> methods;
  std::vector<std::vector<double>> scores;  // [method][window]
  std::vector<std::vector<bool>> flags;     // [method][window], top 1 %

  [[nodiscard]] int agreement(std::size_t window) const;
};

/// Over samples [begin, begin + samples).
[[nodiscard]] WindowVotes window_votes(const Telemetry& telemetry, const DetectOptions& options, std::size_t begin,
                                       std::size_t samples);

[[nodiscard]] Detection detect_as_in_paper(const Telemetry& telemetry, const DetectOptions& options);

}  // namespace reveal
