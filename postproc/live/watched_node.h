// One node of a running job as `reveal watch` sees it: its trace, its detectors, its numbers of the last minute.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/live/alert_notice.h"
#include "postproc/live/collector_status.h"
#include "postproc/live/live_detector.h"
#include "postproc/live/live_trace.h"
#include "postproc/live/node_view.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {

/// The numbers of the view; nothing where the node does not measure one.
[[nodiscard]] const std::vector<MetricFact>& meters();

class WatchedNode {
 public:
  explicit WatchedNode(const std::filesystem::path& trace);

  /// Returns the notices to publish now.
  [[nodiscard]] std::vector<AlertNotice> advance(std::chrono::steady_clock::time_point now, CpuBudget& budget);

  /// The last notices of a trace to which no more rows come: then it has ended.
  [[nodiscard]] std::vector<AlertNotice> end(std::chrono::steady_clock::time_point now, CpuBudget& budget);
  /// `earlier`: the trace of this node before this one.
  void number_alerts_after(const WatchedNode& earlier) { detector_.number_alerts_after(earlier.detector_); }

  [[nodiscard]] const LiveTrace& trace() const { return trace_; }
  [[nodiscard]] LiveTrace& trace() { return trace_; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] double silent_seconds() const { return silent_seconds_; }
  /// As a page shows it, with at most so many past values of each of the meters().
  [[nodiscard]] NodeView view(std::size_t meter_values) const;
  /// Intervals that the collector found before the first row that this watch analyses: once, as soon as they are known.
  [[nodiscard]] std::vector<EarlierInterval> take_earlier();

 private:
  [[nodiscard]] std::vector<AlertNotice> detect(std::chrono::steady_clock::time_point now, CpuBudget& budget);
  void read_meters();
  void read_pace(std::chrono::steady_clock::time_point now);
  [[nodiscard]] Pace pace_now() const;
  [[nodiscard]] std::string program_of(const EarlierInterval& interval);
  void read_status(std::chrono::steady_clock::time_point now);

  std::filesystem::path folder_;
  LiveTrace trace_;
  LiveDetector detector_;
  std::vector<std::deque<double>> history_;
  std::int64_t metered_ns_ = 0;
  CollectorStatus status_;
  std::chrono::steady_clock::time_point next_status_{};
  bool earlier_taken_ = false;
  std::int64_t first_row_ns_ = 0;  // the first one that is analysed
  Pace pace_;
  std::int64_t paced_until_ns_ = 0;
  std::chrono::steady_clock::time_point next_pace_{};
  double silent_seconds_ = 0;
  bool ended_ = false;
};

}  // namespace reveal
