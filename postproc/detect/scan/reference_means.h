// SeriesScan::z of many intervals in many series: the five-second means of a whole series are summed up once, and an
// interval takes its own away from them.
#pragma once

#include <cstddef>
#include <vector>

#include "postproc/detect/scan/scan_scale.h"
#include "postproc/detect/scan/scan_series.h"
#include "postproc/detect/scan/series_scan.h"

namespace reveal {

class ReferenceMeans {
 public:
  /// `input` outlives it.
  ReferenceMeans(const ScanInput& input, const ScanScale& scale);

  [[nodiscard]] const ScanInput& input() const { return input_; }
  /// Signed distance of the interval from the mean of the five-second means outside it, in units of the variation there
  /// plus white noise.
  [[nodiscard]] double z(std::size_t series, std::size_t begin, std::size_t end);

 private:
  struct Sums {
    bool known = false;
    MeanSums all;
  };
  void sum_up(std::size_t series);

  const ScanInput& input_;
  std::size_t length_;      // length of a reference mean
  std::vector<Sums> sums_;  // over all means of a series
  std::vector<double> prefix_;
};

}  // namespace reveal
