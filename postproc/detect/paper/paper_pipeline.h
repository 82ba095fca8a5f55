// The pipeline of arXiv 2510.26008, sections 4.1 to 4.4, as literally as the text allows. It leaves open: whether all
// hosts of a workload are standardised and ranked together (here each node by itself), the features (those of
// features.h), the size of the forest (100 trees of 256 windows, scikit-learn's default), how detectors that agree
// raise a score (votes, then the mean rank), and which signal is named (the largest |z|). Channels of kind state and of
// reveal itself take no part, and a missing feature counts as its mean. The Mahalanobis distance takes time with the
// third power of windows or features, whichever are fewer: it is for jobs of hours.
#pragma once

#include <vector>

#include "postproc/detect/pipeline.h"
#include "postproc/features/feature_matrix.h"
#include "postproc/features/window_grid.h"

namespace reveal {

/// The results of the three detectors for each window of the pruned channels' features.
struct WindowVotes {
  WindowGrid grid;
  std::vector<std::size_t> channels;  // retained by pruning
  FeatureMatrix z;                    // standardised features of those channels
  std::vector<Method> methods;
  std::vector<std::vector<double>> scores;  // [method][window]
  std::vector<std::vector<bool>> flags;     // [method][window], top 1 %

  [[nodiscard]] int agreement(std::size_t window) const;
};
/// Votes on windows of the whole telemetry; `grid` has at least kLeastWindows. `channels`: those that pruning retained.
[[nodiscard]] WindowVotes window_votes(const Telemetry& telemetry, std::vector<std::size_t> channels,
                                       const DetectOptions& options, const WindowGrid& grid);

/// Whether the paper takes the number of events in a window as the channel's feature, and no other.
[[nodiscard]] bool is_summed_in_paper(const Channel& channel);

[[nodiscard]] Detection detect_as_in_paper(const Telemetry& telemetry, const DetectOptions& options);

}  // namespace reveal
