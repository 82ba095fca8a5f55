// Nearest neighbours among windows, by the inner products that all detectors share.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <vector>

namespace reveal {

/// Euclidean distance of every row to its k-th nearest among those more than `excluded` rows away; the farthest one
/// where there are fewer than k, 0 where there is none.
[[nodiscard]] std::vector<double> neighbour_distances(const Eigen::MatrixXd& gram, std::size_t k, std::size_t excluded);

/// The k nearest of one row, by rising distance, under the same exclusion as the detector's.
[[nodiscard]] std::vector<std::size_t> nearest_windows(const Eigen::MatrixXd& gram, std::size_t window, std::size_t k);

/// k = max(10, windows / 20).
[[nodiscard]] std::size_t knn_neighbours(std::size_t windows);

}  // namespace reveal
