// Windows of a node's telemetry as rows, features of its channels as columns.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "postproc/features/features.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct FeatureMatrix {
  struct Column {
    std::size_t channel;  // index into Telemetry::channels
    const Feature* feature;
  };
  Eigen::MatrixXd values;  // [window, column]
  std::vector<Column> columns;
};

[[nodiscard]] bool counts_events(const Channel& channel) noexcept;

/// Dynamic signals get all features, those that `is_summed` their sum, extrapolated over missing samples. A window of
/// which more than half is missing is NaN.
[[nodiscard]] FeatureMatrix feature_matrix(const Telemetry& telemetry, std::span<const std::size_t> channels,
                                           const WindowGrid& grid, bool (*is_summed)(const Channel&) = counts_events);

/// Columns to mean 0 and standard deviation 1 (population). Missing becomes 0; columns that never vary are left out.
[[nodiscard]] FeatureMatrix standardise(FeatureMatrix matrix);

/// The shortest period, in samples, with which the values repeat exactly, at least three times; nothing where they do
/// not. A channel that is constant (1) or strictly periodic tells nothing about its host (paper, section 4.2).
[[nodiscard]] std::optional<std::size_t> exact_period(std::span<const double> values);

}  // namespace reveal
