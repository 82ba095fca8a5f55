// The newest rows of one node's trace, as many as a detection run needs; older ones are forgotten, so that a run costs
// the same after an hour and after a week.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/telemetry/grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The part of a job that a detection run sees, on the grid of the report.
struct LiveBlock {
  Telemetry telemetry;
  std::int64_t first_ns = 0;  // monotonic, of the tick at which sample 0 begins
  bool starts = false;        // sample 0 is the job's first

  [[nodiscard]] std::int64_t time_of(std::size_t sample) const;
};

class RowStore {
 public:
  /// Keeps rows for at least so long.
  explicit RowStore(std::chrono::nanoseconds keep) : keep_(keep) {}

  /// The family's place; for known families, only new channels and ended ones are noted. If rows are closer than the
  /// analysed steps of the wall clock, one is kept for each step; of a family that is read faster at times, one for
  /// each of its periods.
  std::size_t learn(const FamilySpec& spec, const std::vector<ChannelKey>& channels,
                    std::int64_t utc_minus_monotonic_ns = 0);
  [[nodiscard]] std::optional<std::size_t> find(const std::string& path) const;

  /// Rows as the trace has them, [channel][row]; those not after the last one are left out.
  void append(std::size_t family, std::span<const std::int64_t> times, std::span<const double> values);

  /// A row as read from the kernel, before the trace has it. It waits until the trace reaches back to the rows that
  /// came before the first of them.
  void append_early(std::size_t family, std::int64_t time_ns, std::span<const std::int64_t> values);

  /// The first row worth appending to an empty family; those before it are counted as forgotten.
  [[nodiscard]] std::size_t begin_at(std::size_t family, std::span<const std::int64_t> times);

  /// Calls `take` with the mean of every named channel over the rows after `from_ns` up to `until_ns`; families slower
  /// than a second are left out.
  using Take = std::function<void(std::size_t family, std::size_t channel, double mean)>;
  void means(std::int64_t from_ns, std::int64_t until_ns, const Take& take) const;

  /// Mean of a metric over the same rows, all its instances together, counters per second; nothing if not measured.
  [[nodiscard]] std::optional<double> level(std::string_view metric, std::int64_t from_ns, std::int64_t until_ns) const;

  /// The count of a metric since the recording of its channels began, of the channel that counted most; nothing while
  /// no early row has it.
  [[nodiscard]] std::optional<std::int64_t> count_of(std::string_view metric) const;

  /// Newest row of all families; 0: none.
  [[nodiscard]] std::int64_t newest_ns() const;
  [[nodiscard]] std::int64_t newest_ns(std::size_t family) const;
  /// Oldest row of all families that is kept; 0: none.
  [[nodiscard]] std::int64_t oldest_ns() const;
  /// Rows wait for the trace to reach back to them.
  [[nodiscard]] bool rows_wait() const;
  /// True if there are values of channels that have their names only in the trace.
  [[nodiscard]] bool names_missing() const;
  [[nodiscard]] std::size_t channels() const;

  /// Everything that is kept, up to `until_ns` (0: the newest). Nothing while there are not two rows. `paths`: only of
  /// these families, and nothing that is derived from them; empty: of all.
  [[nodiscard]] std::optional<LiveBlock> block(const TraceHeader& header, std::int64_t utc_minus_monotonic_ns,
                                               std::int64_t until_ns = 0,
                                               std::span<const std::string_view> paths = {}) const;

 private:
  struct EarlyRow {
    std::int64_t time_ns;
    std::vector<std::int64_t> values;
  };
  struct StoredFamily {
    FamilySpec spec;  // its period is that of the rows kept
    std::vector<ChannelKey> channels;
    std::chrono::nanoseconds finer{0};  // the shortest period of the rows that come, if it is another
    std::int64_t utc_minus_monotonic_ns = 0;
    std::size_t width = 0;  // channels with values; the trace may name them later
    std::vector<std::int64_t> times;
    std::size_t capacity = 0;
    std::vector<float> values;  // [channel][capacity]; the detectors compute with single precision, too
    bool forgot = false;        // its first row is no longer there
    std::deque<EarlyRow> waiting;
    std::vector<std::int64_t> counted;  // absolute value of each channel in the last early row
    std::int64_t counted_ns = 0;

    [[nodiscard]] std::size_t rows() const { return times.size(); }
    /// The rows in this time, and the one before.
    struct Range {
      std::size_t begin = 0, end = 0;
    };
    [[nodiscard]] Range rows_between(std::int64_t first_ns, std::int64_t last_ns) const;
    /// Without rows, or with these.
    [[nodiscard]] FamilyRows named_channels() const;
    [[nodiscard]] FamilyRows named_channels(Range rows) const;
  };
  void make_room(StoredFamily& family, std::size_t rows) const;
  static void widen(StoredFamily& family, std::size_t width);
  void append_row(StoredFamily& family, const EarlyRow& row) const;
  /// The place of a row that is newer than all others: its own, or that of the last one. All values of a new place are
  /// missing.
  std::size_t place_of(StoredFamily& family, std::int64_t time_ns) const;
  void take_waiting(StoredFamily& family) const;

  std::chrono::nanoseconds keep_;
  std::vector<StoredFamily> families_;
};

}  // namespace reveal
