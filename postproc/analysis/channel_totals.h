// Totals of each channel over the whole job, counted piece by piece.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct ChannelTotals {
  std::size_t present = 0;
  std::size_t late = 0;  // values above 10 ms, for the collector's own lateness
  double sum = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double last = std::numeric_limits<double>::quiet_NaN();

  void add(std::span<const double> values);
};

struct TraceTotals {
  std::vector<ChannelTotals> channels;
  /// The most that all channels of it held at the same time; NaN where not measured.
  double process_memory_peak = std::numeric_limits<double>::quiet_NaN();
  double cgroup_memory_peak = std::numeric_limits<double>::quiet_NaN();

  /// Pieces follow each other.
  void add(const Telemetry& piece);
};

}  // namespace reveal
