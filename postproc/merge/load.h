// One trace, read and laid on the regular grid of its node: everything later stages need of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/merge/telemetry.h"

namespace reveal {

/// A family as TraceReader gives it, so that the alignment can be tested without a file.
struct FamilyRows {
  FamilySpec spec;
  std::vector<ChannelKey> channels;
  std::vector<std::int64_t> time_ns;  // monotonic, strictly increasing
  std::vector<double> values;         // [channel][time]
};

struct NodeTrace {
  TraceHeader header;
  bool complete = true;
  Telemetry telemetry;
  Snapshot begin;
  Snapshot end;
  std::vector<Event> events;
  std::vector<Coverage> coverage;
  double samples_expected = 0;  // grid steps between the first and the last row
  double samples_present = 0;   // rows of the fastest family
  bool rows_lost = false;       // the collector could not write all it measured
  double clock_error_seconds = 0;
  std::vector<std::string> notes;  // sentences for the reader: clock stepped, rows lost
};

/// The grid: wall-aligned multiples of the interval. Sample i covers the step that ends at tick i+1; the first tick is
/// only the base of counters. One offset (the median of the clock pairs) serves the whole trace, so that a wall clock
/// that steps never re-spaces it.
class Grid {
 public:
  Grid(std::int64_t first_ns, std::int64_t last_ns, std::int64_t utc_minus_monotonic_ns, std::int64_t step_ns);

  [[nodiscard]] std::int64_t index(std::int64_t monotonic_ns) const;  // -1 for the first tick
  [[nodiscard]] std::size_t samples() const { return samples_; }
  [[nodiscard]] std::int64_t begin_utc_ns() const { return begin_utc_ns_; }

 private:
  std::int64_t offset_ns_;
  std::int64_t step_ns_;
  std::int64_t begin_utc_ns_;
  std::size_t samples_ = 0;
};

/// Median of utc - monotonic over the pairs; the header's begin at `first_ns` when there is no pair.
[[nodiscard]] std::int64_t utc_offset_ns(const std::vector<ClockPair>& clocks, const TraceHeader& header,
                                         std::int64_t first_ns);

/// Turns events about lost rows, events, probes and ticks into notes, a few at most, and sets rows_lost.
void note_losses(NodeTrace& trace);

/// Appends the family's channels to telemetry.channels and their values, laid on the grid, to telemetry.values.
void lay_on_grid(const FamilyRows& family, const Grid& grid, Telemetry& telemetry);

/// Throws Error with one line when the file is not a trace this version can read, or holds no samples.
[[nodiscard]] NodeTrace load_trace(const std::filesystem::path& path);

}  // namespace reveal
