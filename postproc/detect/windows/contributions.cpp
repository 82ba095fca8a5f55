#include "postproc/detect/windows/contributions.h"

#include <algorithm>
#include <cmath>

#include "postproc/detect/windows/knn_distance.h"
#include "postproc/detect/windows/robust_forest.h"

namespace reveal {

namespace {

/// Per component: how many splits on it led to the row, those on short paths counting more.
Eigen::VectorXd split_credit(const IsolationForest& forest, const Eigen::MatrixXd& rows, Eigen::Index row) {
  Eigen::VectorXd credit = Eigen::VectorXd::Zero(rows.cols());
  for (const IsolationTree& tree : forest.trees) {
    const double path = path_length(tree, rows, row);
    for (std::uint32_t at = 0; tree[at].feature >= 0;) {
      credit[tree[at].feature] += 1 / path;
      at = rows(row, tree[at].feature) <= tree[at].threshold ? tree[at].left : tree[at].right;
    }
  }
  return credit;
}

}  // namespace

std::vector<Contributions> contributions(const Telemetry& telemetry, const WindowGrid& grid,
                                         const RobustWindows& windows, std::span<const std::size_t> at,
                                         std::uint64_t seed) {
  const std::size_t channels = windows.channels.size();
  std::vector<Contributions> result(at.size());
  for (Contributions& one : result) {
    one.mahalanobis.resize(channels);
    one.neighbours.resize(channels);
    one.forest.resize(channels);
  }
  const PrincipalComponents& pc = windows.components;
  if (pc.variances.size() == 0 || windows.kept == 0) return result;

  const Eigen::MatrixXd rows = forest_rows(windows);
  const IsolationForest forest = fit_robust_forest(rows, seed);
  std::vector<Eigen::VectorXd> credit;
  std::vector<Eigen::VectorXd> weight;  // coordinate over variance for each kept component
  std::vector<std::vector<std::size_t>> nearest;
  for (const std::size_t w : at) {
    const auto row = static_cast<Eigen::Index>(w);
    credit.push_back(split_credit(forest, rows, row));
    weight.push_back(
        pc.coordinates.row(row).head(windows.kept).transpose().cwiseQuotient(pc.variances.head(windows.kept)) /
        static_cast<double>(windows.kept));
    nearest.push_back(nearest_windows(windows.gram, w, knn_neighbours(windows.windows)));
  }

  std::vector<Eigen::MatrixXd> moved(at.size(),
                                     Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(channels), rows.cols()));
  Eigen::MatrixXd core(static_cast<Eigen::Index>(kRobustFeatures), static_cast<Eigen::Index>(pc.core.size()));
  for_each_channel(telemetry, grid, windows, [&](std::size_t index, std::span<const float> g) {
    using Features = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::MatrixXd all = Eigen::Map<const Features>(g.data(), static_cast<Eigen::Index>(kRobustFeatures),
                                                           static_cast<Eigen::Index>(windows.windows))
                                    .cast<double>();
    for (std::size_t c = 0; c < pc.core.size(); ++c) core.col(static_cast<Eigen::Index>(c)) = all.col(pc.core[c]);
    const Eigen::VectorXd mean = core.rowwise().mean();
    core.colwise() -= mean;
    const Eigen::MatrixXd loadings = core * pc.core_basis;  // [feature, component]
    for (std::size_t k = 0; k < at.size(); ++k) {
      const Eigen::VectorXd mine = all.col(static_cast<Eigen::Index>(at[k]));
      result[k].mahalanobis[index] = (mine - mean).dot(loadings.leftCols(windows.kept) * weight[k]);
      for (const std::size_t other : nearest[k]) {
        result[k].neighbours[index] +=
            (mine - all.col(static_cast<Eigen::Index>(other))).squaredNorm() / static_cast<double>(nearest[k].size());
      }
      moved[k].row(static_cast<Eigen::Index>(index)) =
          ((mine - mean).transpose() * loadings.leftCols(rows.cols())).cwiseAbs();
    }
  });
  for (std::size_t k = 0; k < at.size(); ++k) {
    const Eigen::RowVectorXd total = moved[k].colwise().sum().cwiseMax(1e-300);
    Eigen::VectorXd share = (moved[k].array().rowwise() / total.array()).matrix() * credit[k];
    if (const double sum = share.sum(); sum > 0) share /= sum;
    std::copy(share.begin(), share.end(), result[k].forest.begin());
  }
  return result;
}

}  // namespace reveal
