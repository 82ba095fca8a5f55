// Inner products of all pairs of windows, fed one feature at a time: distances and principal components follow from
// them, so the features themselves need not be kept.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

namespace reveal {

class Gram {
 public:
  explicit Gram(std::size_t windows);

  /// One value per window, finite.
  void add(std::span<const float> feature);
  void add(std::span<const double> feature);

  [[nodiscard]] std::size_t features() const { return features_; }

  /// The symmetric matrix; the accumulator is empty afterwards.
  [[nodiscard]] Eigen::MatrixXd take();

 private:
  template <typename Value>
  void append(std::span<const Value> feature);
  void flush();

  std::size_t windows_;
  std::size_t tiles_;  // tiles of eight windows
  std::size_t features_ = 0;
  std::size_t depth_ = 0;
  std::vector<double> panel_;  // [tile][depth][8]
  std::vector<double> sums_;   // [tile][tile at or before it][8][8]
};

}  // namespace reveal
