// Windows of a node's telemetry as rows, features of its channels as columns.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

#include "postproc/features/features.h"
#include "postproc/merge/telemetry.h"

namespace reveal {

/// Overlapping windows over samples [begin, ...): window k is [begin + k * stride, begin + k * stride + length).
struct WindowGrid {
  std::size_t begin = 0;
  std::size_t length = 30;
  std::size_t stride = 10;
  std::size_t count = 0;

  [[nodiscard]] std::size_t first_sample(std::size_t window) const { return begin + window * stride; }
  [[nodiscard]] std::size_t end_sample(std::size_t window) const { return first_sample(window) + length; }
};

/// As many whole windows as fit into `samples`.
[[nodiscard]] WindowGrid window_grid(double window_seconds, double stride_seconds, double step_seconds,
                                     std::size_t begin, std::size_t samples);

struct FeatureMatrix {
  struct Column {
    std::size_t channel;  // index into Telemetry::channels
    const Feature* feature;
  };
  Eigen::MatrixXd values;  // [window, column]
  std::vector<Column> columns;
};

/// Dynamic signals get all features, event counters their sum. A window of which more than half is missing is NaN.
[[nodiscard]] FeatureMatrix feature_matrix(const Telemetry& telemetry, std::span<const std::size_t> channels,
                                           const WindowGrid& grid);

/// Columns to mean 0 and standard deviation 1 (population). Missing becomes 0; columns that never vary are left out.
[[nodiscard]] FeatureMatrix standardise(FeatureMatrix matrix);

/// Static or strictly periodic over the range: such channels say nothing inside one host (paper, section 4.2).
[[nodiscard]] bool is_static_or_periodic(std::span<const double> values);

}  // namespace reveal
