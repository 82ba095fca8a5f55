// Isolation Forest (Liu, Ting, Zhou 2008) with the constants of scikit-learn: random splits isolate strange rows early.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reveal {

struct IsolationNode {
  int feature = -1;  // -1: a leaf
  double threshold = 0;
  std::uint32_t left = 0;  // value <= threshold
  std::uint32_t right = 0;
  std::uint32_t size = 0;  // training rows that ended here
};

using IsolationTree = std::vector<IsolationNode>;  // [0] is the root

/// Mean path length of an unsuccessful search in a binary tree of n rows: c(n).
[[nodiscard]] double average_path_length(std::size_t n);

/// Depth of the leaf a row ends in plus c(size of the leaf).
[[nodiscard]] double path_length(const IsolationTree& tree, const Eigen::MatrixXd& rows, Eigen::Index row);

inline constexpr std::size_t kRowsOfTree = 256;

struct IsolationForest {
  std::vector<IsolationTree> trees;
  std::size_t sample = 0;  // rows per tree

  /// Each tree grows from up to kRowsOfTree rows.
  [[nodiscard]] static IsolationForest fit(const Eigen::MatrixXd& rows, std::uint64_t seed, std::size_t trees = 100);
  /// 2^(-mean path / c(sample)), between 0 and 1.
  [[nodiscard]] std::vector<double> score(const Eigen::MatrixXd& rows) const;
};

}  // namespace reveal
