// The regular time grid of a node, and how a family's rows are laid on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// How many ticks one step of the analysis takes: one, or so many that it is not below 100 ms. The kernel accounts cpu
/// time in ticks of up to 10 ms, and detectors and rules were measured at 100 ms.
[[nodiscard]] std::int64_t ticks_in_step(std::chrono::nanoseconds interval);

/// The grid: wall-aligned multiples of a step. Sample i covers the one that ends at begin + i + 1 steps; the first tick
/// is only the base of counters. One offset (the median of the clock pairs) serves the whole trace, so that a wall
/// clock that steps never re-spaces it.
class Grid {
 public:
  Grid(std::int64_t first_ns, std::int64_t last_ns, std::int64_t utc_minus_monotonic_ns,
       std::chrono::nanoseconds interval);

  /// Index of the sample that ends at or after it; negative for ticks before the first whole step.
  [[nodiscard]] std::int64_t index(std::int64_t monotonic_ns) const;
  /// The tick, counted from that at which sample 0 begins.
  [[nodiscard]] std::int64_t tick(std::int64_t monotonic_ns) const;
  [[nodiscard]] std::int64_t ticks_in_step() const { return ticks_in_step_; }
  [[nodiscard]] std::size_t samples() const { return samples_; }
  [[nodiscard]] std::int64_t begin_utc_ns() const { return begin_ * interval_ns_; }
  [[nodiscard]] std::int64_t step_ns() const { return ticks_in_step_ * interval_ns_; }

 private:
  std::int64_t offset_ns_;
  std::int64_t interval_ns_;
  std::int64_t ticks_in_step_;
  std::int64_t begin_ = 0;  // in intervals of the wall clock
  std::size_t samples_ = 0;
};

/// The family that sets the pace of a node: the one with the most rows, two at least; none where none has so many.
template <typename Family>
[[nodiscard]] const Family* pace_of(const std::vector<Family>& families) {
  const Family* best = nullptr;
  for (const Family& family : families) {
    if (family.rows() > 1 && (best == nullptr || family.rows() > best->rows())) best = &family;
  }
  return best;
}

/// Rows of a family as TraceReader gives them: all, or those around some samples.
struct FamilyRows {
  FamilySpec spec;
  std::vector<ChannelKey> channels;
  std::vector<std::int64_t> time_ns;  // monotonic, strictly increasing
  std::vector<double> values;         // [channel][time]
  /// Per channel, whether an earlier row than these has a value; empty: none has.
  std::vector<bool> seen_before = {};
};

/// Steps before and after its own that a row of the family can fill: a counter that is spread over a gap, a level that
/// is held.
[[nodiscard]] std::int64_t reach_of(const FamilySpec& family, double step_seconds);

/// Appends the family's channels to telemetry.channels.
void append_channels(const FamilyRows& family, Telemetry& telemetry);

/// The one way from rows to the grid, of a trace and of a job that still runs: samples [begin, begin + samples) of all
/// families, one after the other. `rows_of` returns the rows of a family that can fill these samples, valid until its
/// next call; null where there are none. `telemetry` is empty, or one that was filled from the same families before.
using RowsOf = std::function<const FamilyRows*(std::size_t family)>;
void lay_on_grid(const Grid& grid, std::size_t begin, std::size_t samples, std::size_t families, const RowsOf& rows_of,
                 Telemetry& telemetry);
/// The same of a part of a longer piece, which has its channels and its length, and zeros from sample `at` on: zeros
/// are not written.
void lay_part_on_grid(const Grid& grid, std::size_t begin, std::size_t samples, std::size_t families,
                      const RowsOf& rows_of, std::size_t at, Telemetry& zeros);

}  // namespace reveal
