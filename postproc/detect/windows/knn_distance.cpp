// Distance to the k-th nearest window at another time: phases that recur have neighbours, however strange they look to
// the whole. Once with all features, once with levels alone, in which a long shift is not diluted by shapes.
#include "postproc/detect/windows/knn_distance.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "postproc/detect/windows/window_detector.h"

namespace reveal {

namespace {

constexpr std::size_t kMinNeighbours = 10;
constexpr std::size_t kWindowsPerNeighbour = 20;
constexpr std::size_t kExcluded = 5;  // windows before and after: they share samples, or the same event

std::vector<double> knn_distance(const RobustWindows& windows, std::uint64_t /*seed*/) {
  if (windows.gram_features == 0) return std::vector<double>(windows.windows);
  return robust_score_of_distance(neighbour_distances(windows.gram, knn_neighbours(windows.windows), kExcluded));
}

std::vector<double> level_distance(const RobustWindows& windows, std::uint64_t /*seed*/) {
  if (windows.gram_features == 0) return std::vector<double>(windows.windows);
  return robust_score_of_distance(neighbour_distances(windows.level_gram, knn_neighbours(windows.windows), kExcluded));
}

const RegisteredWindowDetector all{
    3, {Method::neighbours, "distance to the k-th nearest window, all features", 1, 1, true, knn_distance}};
const RegisteredWindowDetector levels{
    4, {Method::level_neighbours, "distance to the k-th nearest window, levels alone", 1, 1, false, level_distance}};

}  // namespace

std::size_t knn_neighbours(std::size_t windows) {
  return std::max(kMinNeighbours, windows / kWindowsPerNeighbour);
}

std::vector<std::size_t> nearest_windows(const Eigen::MatrixXd& gram, std::size_t window, std::size_t k) {
  std::vector<std::pair<double, std::size_t>> squares;
  const auto row = static_cast<Eigen::Index>(window);
  for (std::size_t other = 0; other < static_cast<std::size_t>(gram.rows()); ++other) {
    if (other + kExcluded >= window && other <= window + kExcluded) continue;
    const auto column = static_cast<Eigen::Index>(other);
    squares.emplace_back(gram(column, column) - 2 * gram(column, row), other);
  }
  k = std::min(k, squares.size());
  std::partial_sort(squares.begin(), squares.begin() + static_cast<std::ptrdiff_t>(k), squares.end());
  std::vector<std::size_t> nearest;
  for (std::size_t i = 0; i < k; ++i) nearest.push_back(squares[i].second);
  return nearest;
}

std::vector<double> neighbour_distances(const Eigen::MatrixXd& gram, std::size_t k, std::size_t excluded) {
  const auto n = static_cast<std::size_t>(gram.rows());
  std::vector<double> result(n);
  std::vector<double> squares;
  for (std::size_t w = 0; w < n; ++w) {
    const auto row = static_cast<Eigen::Index>(w);
    squares.clear();
    for (std::size_t other = 0; other < n; ++other) {
      if (other + excluded >= w && other <= w + excluded) continue;
      const auto column = static_cast<Eigen::Index>(other);
      squares.push_back(gram(row, row) + gram(column, column) - 2 * gram(column, row));
    }
    if (squares.empty()) continue;
    const auto nth = squares.begin() + static_cast<std::ptrdiff_t>(std::min(k, squares.size()) - 1);
    std::nth_element(squares.begin(), nth, squares.end());
    result[w] = std::sqrt(std::max(0.0, *nth));  // rounding may leave less than nothing between copies
  }
  return result;
}

}  // namespace reveal
