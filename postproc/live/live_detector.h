// Live detection of one node: decides when detection runs, runs it, and returns the changes. Files and clocks are its
// caller's, so that a recorded trace can be replayed through it.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "postproc/live/alert_book.h"
#include "postproc/live/cpu_budget.h"
#include "postproc/live/pre_filter.h"
#include "postproc/telemetry/row_store.h"

namespace reveal {

/// The part of the job that a detection run reads; the report's blocks are up to 25 minutes long.
inline constexpr std::chrono::seconds kLiveBlock{600};

class LiveDetector {
 public:
  /// The changes since the last call. `header` and the offset are the trace's; `now_seconds`: of a clock that does not
  /// step, for the budget. `ended`: all rows are there.
  [[nodiscard]] std::vector<AlertChange> advance(const RowStore& rows, const TraceHeader& header,
                                                 std::int64_t utc_minus_monotonic_ns, double now_seconds, bool ended,
                                                 CpuBudget& budget);

  void number_alerts_after(const LiveDetector& earlier) { book_.number_after(earlier.book_); }

  [[nodiscard]] const AlertBook& book() const { return book_; }
  /// Until when the last detection run saw the job, and the one before it; monotonic, 0: none.
  [[nodiscard]] std::int64_t seen_until_ns() const { return seen_ns_; }
  [[nodiscard]] std::int64_t seen_before_ns() const { return seen_before_ns_; }
  [[nodiscard]] double last_cost_seconds() const { return cost_; }
  [[nodiscard]] std::int64_t alarms() const { return alarms_; }

 private:
  [[nodiscard]] bool due(const RowStore& rows, std::int64_t newest_ns, double now_seconds, CpuBudget& budget);

  PreFilter pre_filter_;
  AlertBook book_;
  std::int64_t first_ns_ = 0;
  std::int64_t asked_ns_ = 0;  // the pre-filter's last window
  std::int64_t urgent_until_ns_ = 0;
  std::int64_t seen_ns_ = 0;
  std::int64_t seen_before_ns_ = 0;
  std::int64_t alarms_ = 0;
  double cost_ = 0;
};

}  // namespace reveal
