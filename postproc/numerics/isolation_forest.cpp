#include "postproc/numerics/isolation_forest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>

namespace reveal {

namespace {

/// The standard's engine is the same everywhere, its distributions are not: these are.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11U) * 0x1.0p-53; }
  std::size_t below(std::size_t n) {
    return std::min(n - 1, static_cast<std::size_t>(uniform() * static_cast<double>(n)));
  }

 private:
  std::mt19937_64 engine_;
};

class Grower {
 public:
  Grower(const Eigen::MatrixXd& rows, Random& random, int depth_limit)
      : rows_(rows), random_(random), depth_limit_(depth_limit) {
    features_.resize(static_cast<std::size_t>(rows.cols()));
    std::iota(features_.begin(), features_.end(), Eigen::Index{0});
  }

  IsolationTree grow(std::span<Eigen::Index> members) {
    tree_.clear();
    add(members, 0);
    return tree_;
  }

 private:
  std::uint32_t add(std::span<Eigen::Index> members, int depth) {
    const auto index = static_cast<std::uint32_t>(tree_.size());
    tree_.push_back({.size = static_cast<std::uint32_t>(members.size())});
    if (depth >= depth_limit_ || members.size() < 2) return index;

    // A feature that does not vary here cannot split: draw without replacement until one does.
    for (std::size_t left = features_.size(); left > 0; --left) {
      std::swap(features_[random_.below(left)], features_[left - 1]);
      const Eigen::Index feature = features_[left - 1];
      const auto column = rows_.col(feature);
      double low = column[members[0]];
      double high = low;
      for (const Eigen::Index row : members) {
        low = std::min(low, column[row]);
        high = std::max(high, column[row]);
      }
      if (high <= low) continue;
      double threshold = low + random_.uniform() * (high - low);
      if (threshold >= high) threshold = low;
      const auto middle =
          std::partition(members.begin(), members.end(), [&](Eigen::Index row) { return column[row] <= threshold; });
      const auto n_left = static_cast<std::size_t>(middle - members.begin());
      tree_[index].feature = static_cast<int>(feature);
      tree_[index].threshold = threshold;
      const std::uint32_t left_child = add(members.first(n_left), depth + 1);
      const std::uint32_t right_child = add(members.subspan(n_left), depth + 1);
      tree_[index].left = left_child;
      tree_[index].right = right_child;
      return index;
    }
    return index;
  }

  const Eigen::MatrixXd& rows_;
  Random& random_;
  int depth_limit_;
  std::vector<Eigen::Index> features_;
  IsolationTree tree_;
};

double computed_path_length(std::size_t n) {
  constexpr double kEuler = 0.577215664901532860;
  if (n <= 1) return 0;
  if (n == 2) return 1;
  const auto m = static_cast<double>(n);
  return 2 * (std::log(m - 1) + kEuler) - 2 * (m - 1) / m;
}

}  // namespace

double average_path_length(std::size_t n) {
  static const std::vector<double> known = [] {
    std::vector<double> lengths(kRowsOfTree + 1);
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = computed_path_length(i);
    return lengths;
  }();
  return n <= kRowsOfTree ? known[n] : computed_path_length(n);
}

double path_length(const IsolationTree& tree, const Eigen::MatrixXd& rows, Eigen::Index row) {
  std::uint32_t at = 0;
  double depth = 0;
  while (tree[at].feature >= 0) {
    at = rows(row, tree[at].feature) <= tree[at].threshold ? tree[at].left : tree[at].right;
    depth += 1;
  }
  return depth + average_path_length(tree[at].size);
}

IsolationForest IsolationForest::fit(const Eigen::MatrixXd& rows, std::uint64_t seed, std::size_t trees) {
  const auto n = static_cast<std::size_t>(rows.rows());
  IsolationForest forest;
  forest.sample = std::min(kRowsOfTree, n);
  if (n == 0) return forest;
  Random random(seed);
  const int depth_limit =
      static_cast<int>(std::ceil(std::log2(std::max<double>(2, static_cast<double>(forest.sample)))));
  Grower grower(rows, random, depth_limit);
  std::vector<Eigen::Index> all(n);
  std::iota(all.begin(), all.end(), Eigen::Index{0});
  for (std::size_t t = 0; t < trees; ++t) {
    for (std::size_t i = 0; i < forest.sample; ++i) std::swap(all[i], all[i + random.below(n - i)]);
    forest.trees.push_back(grower.grow(std::span(all).first(forest.sample)));
  }
  return forest;
}

std::vector<double> IsolationForest::score(const Eigen::MatrixXd& rows) const {
  std::vector<double> scores(static_cast<std::size_t>(rows.rows()));
  const double expected = average_path_length(sample);
  if (trees.empty() || expected <= 0) return scores;
  for (const IsolationTree& tree : trees) {
    for (std::size_t w = 0; w < scores.size(); ++w) scores[w] += path_length(tree, rows, static_cast<Eigen::Index>(w));
  }
  for (double& score : scores) score = std::exp2(-score / static_cast<double>(trees.size()) / expected);
  return scores;
}

}  // namespace reveal
