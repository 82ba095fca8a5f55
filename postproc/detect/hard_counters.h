// Counters that ought to stand still: errors, drops, kills for memory, throttling. One of them is lost among hundreds
// of channels, so they are looked at one by one and by value.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "postproc/detect/scan_scale.h"
#include "postproc/merge/telemetry.h"

namespace reveal {

struct CounterBurst {
  std::size_t channel = 0;
  std::size_t begin = 0;  // samples, end exclusive
  std::size_t end = 0;
  double count = 0;
  double least = 1;        // count from which this kind is worth a word
  bool recurring = false;  // one of many: the job lives with it
};

/// Bursts by time. Counters that count in every other second give none: the scan sees those.
[[nodiscard]] std::vector<CounterBurst> counter_bursts(const Telemetry& telemetry, const ScanScale& scale);

/// The count from which a metric is worth a word; 0 for metrics that may count as they like.
[[nodiscard]] double least_count(std::string_view metric);

}  // namespace reveal
