// Isolation Forest on the first principal components of the core: in thousands of features a random split nearly
// always falls on noise.
#include "postproc/detect/windows/robust_forest.h"

#include <algorithm>

#include "postproc/detect/windows/window_detector.h"

namespace reveal {

namespace {

constexpr Eigen::Index kForestComponents = 20;
// With a hundred trees the seed moves the ensemble's average precision by 0.005; trees on few columns cost next to
// nothing.
constexpr std::size_t kTrees = 1000;

std::vector<double> robust_forest(const RobustWindows& windows, std::uint64_t seed) {
  const Eigen::MatrixXd rows = forest_rows(windows);
  if (rows.cols() == 0) return std::vector<double>(windows.windows);
  return robust_score_of_distance(fit_robust_forest(rows, seed).score(rows));
}

const RegisteredWindowDetector kRobustForest{
    2,
    {Method::robust_forest, "Isolation Forest on 20 principal components of the core", 1, 0.5, false, robust_forest}};

}  // namespace

Eigen::MatrixXd forest_rows(const RobustWindows& windows) {
  const Eigen::MatrixXd& all = windows.components.coordinates;
  return all.leftCols(std::min(kForestComponents, all.cols()));
}

IsolationForest fit_robust_forest(const Eigen::MatrixXd& rows, std::uint64_t seed) {
  return IsolationForest::fit(rows, seed, kTrees);
}

}  // namespace reveal
