// Ranks windows by the combined scores of all window detectors, and attributes each score to channels. Constants
// and the measurements behind them: bench/detection/README.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/windows/window_detector.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct WindowRanking {
  std::vector<double> score;                 // per window: around 0 for usual ones, 3 and more for strange ones
  std::vector<Method> methods;               // that took part
  std::vector<std::vector<double>> members;  // [detector][window], on the scale of `score`
  std::vector<std::vector<Reason>> reasons;  // [window], all channels by falling share; empty unless requested
};

enum class Explain : std::uint8_t { no, every_channel };

/// Fewer than kLeastWindows: all scores are 0. Long series are ranked in parts of at most 2,400 windows. `detectors`:
/// those that take part.
[[nodiscard]] WindowRanking rank_windows(const Telemetry& telemetry, const WindowGrid& grid, std::uint64_t seed,
                                         Explain explain,
                                         std::span<const WindowDetector> detectors = window_detectors());

/// A window that shares samples with a stranger neighbour is likelier to belong to the same event: it is raised towards
/// that neighbour by half the share of samples they have in common.
[[nodiscard]] std::vector<double> raised_by_neighbours(const std::vector<double>& score, const WindowGrid& grid);

}  // namespace reveal
