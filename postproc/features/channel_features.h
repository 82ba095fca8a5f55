// All features of one channel's windows at once, four windows side by side. Equal to Feature::compute up to rounding.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "postproc/features/features.h"
#include "postproc/features/window_grid.h"

namespace reveal {

/// The last two of features(), which cost as much as several others.
enum class UnitRootTest : bool { left_out, made };

class ChannelFeatures {
 public:
  explicit ChannelFeatures(const WindowGrid& grid, UnitRootTest test = UnitRootTest::made);

  /// out[feature * grid.count + window], features in the order of features(). NaN where a feature is not defined and in
  /// windows of which more than half is missing, and of tests that are left out. May be called again and again without
  /// allocating.
  void compute(std::span<const double> series, std::span<double> out);

 private:
  void compute_one(std::span<const double> series, std::size_t window, std::span<double> out);
  void compute_four(const double* const first[4], const std::size_t windows[4], std::span<double> out);

  WindowGrid grid_;
  UnitRootTest test_;
  std::vector<std::pair<std::size_t, std::size_t>> exchanges_;  // leave the middle of a window in its middle
  std::vector<double> samples_, centered_;                      // [sample][lane]
  Window window_;
};

}  // namespace reveal
