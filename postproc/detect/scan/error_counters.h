// Counters that ought to stand still: errors, drops, kills for memory, throttling. One of them is lost among hundreds
// of channels, so they are looked at one by one and by value.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct CounterBurst {
  std::size_t channel = 0;
  std::size_t begin = 0;  // samples, end exclusive
  std::size_t end = 0;
  double count = 0;
  std::size_t measured = 0;  // samples within it
  double least = 1;          // count from which this kind is reported
  double observed = 0;       // per second, inside and outside of the burst; NaN where nothing was measured
  double expected = 0;
  bool recurring = false;  // one of many: the job lives with it
};

/// Looks at a job that comes piece by piece.
class CounterWatch {
 public:
  /// `channels` outlive it.
  CounterWatch(std::span<const Channel> channels, double step_seconds, const ScanScale& scale);
  /// The samples that follow those of the last call.
  void add(const Telemetry& piece);
  /// The bursts seen so far, by time. Counters that count in every other second give none: the scan finds those.
  [[nodiscard]] std::vector<CounterBurst> bursts() const;

 private:
  struct Counter {
    std::size_t channel = 0;
    double least = 0;
    std::vector<CounterBurst> bursts;  // the last one, and the largest of those before
    std::size_t first_measured = 0;    // the measured sample with which the last one began
    std::size_t busy = 0;              // seconds with a count
    std::size_t counted_until = 0;
    double total = 0;
    std::size_t measured = 0;
  };
  void count(double value, std::size_t at, Counter& counter) const;

  double step_seconds_;
  ScanScale scale_;
  std::size_t samples_ = 0;
  std::vector<Counter> counters_;
};

/// The count from which a metric is reported; 0 for metrics without a limit.
[[nodiscard]] double least_count(std::string_view metric);

}  // namespace reveal
