// The nearest-neighbour ratio of an interval, from moments instead of means: how far is each second inside from the
// most similar second outside? An epoch, a checkpoint or a burst has a match elsewhere in the job; a disturbance has
// none.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

#include "postproc/detect/scan/scan_series.h"

namespace reveal {

class NeighbourRatio {
 public:
  /// Uses the detecting series, weighted by the variance that each shares with others: isolated noise has no match
  /// either.
  NeighbourRatio(const ScanInput& input, const ScanScale& scale);

  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Mean distance of the interval's seconds to their nearest second outside, divided by the largest such mean of any
  /// other interval as long: above 1 the interval is the least familiar part; infinite where all others are alike. 0
  /// where too little is left to compare. `repeats`: other samples that are left out, too.
  [[nodiscard]] double ratio(std::size_t begin, std::size_t end, std::span<const Span> repeats = {}) const;

 private:
  [[nodiscard]] double unlike(const Span& span, const std::vector<bool>& left_out) const;

  std::size_t window_ = 1;     // samples of a second
  Eigen::MatrixXf distances_;  // between seconds
};

}  // namespace reveal
