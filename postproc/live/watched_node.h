// One node of a running job as `reveal watch` sees it: its trace, its detectors, its numbers of the last minute.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/live/live_detector.h"
#include "postproc/live/live_trace.h"
#include "postproc/live/pace.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {

/// The numbers of the view; nothing where the node does not measure one.
[[nodiscard]] const std::vector<MetricFact>& meters();

/// An alert as it is published.
struct AlertNotice {
  AlertNews news = AlertNews::opened;
  std::int64_t published_utc_ns = 0;
  std::string node;
  int number = 0;  // within the node
  AlertState state = AlertState::open;
  Tier tier = Tier::none;
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;  // so far, while it is open
  Subsystem subsystem = Subsystem::cpu;
  double score = 0;
  std::vector<Method> methods;
  std::vector<Label> labels;
  std::string claim;
  struct Reason {
    std::string channel, unit;
    std::optional<double> observed, expected;
    double share = 0;
    bool operator==(const Reason&) const = default;
  };
  std::vector<Reason> reasons;
  std::int64_t window_end_utc_ns = 0;  // time of the newest row in the detection run
  std::int64_t last_run_utc_ns = 0;    // time of the newest row in the detection run before
  bool operator==(const AlertNotice&) const = default;
};

class WatchedNode {
 public:
  explicit WatchedNode(const std::filesystem::path& trace);

  /// Returns the notices to publish now.
  [[nodiscard]] std::vector<AlertNotice> advance(std::chrono::steady_clock::time_point now, CpuBudget& budget);

  [[nodiscard]] const LiveTrace& trace() const { return trace_; }
  [[nodiscard]] const LiveDetector& detector() const { return detector_; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] double silent_seconds() const { return silent_seconds_; }
  /// The time of its newest row; 0: it has none.
  [[nodiscard]] std::int64_t heard_utc_ns() const;
  /// Past values of meters(): one value a second, the newest last.
  [[nodiscard]] const std::vector<std::deque<double>>& history() const { return history_; }
  [[nodiscard]] std::optional<double> collector_percent() const { return collector_percent_; }
  [[nodiscard]] double job_seconds() const;
  [[nodiscard]] const std::optional<Pace>& pace() const { return pace_; }

 private:
  void read_meters();
  void read_pace(std::chrono::steady_clock::time_point now);
  void read_status(std::chrono::steady_clock::time_point now);

  std::filesystem::path folder_;
  LiveTrace trace_;
  LiveDetector detector_;
  std::vector<std::deque<double>> history_;
  std::int64_t metered_ns_ = 0;
  std::optional<double> collector_percent_;
  std::chrono::steady_clock::time_point next_status_{};
  std::optional<Pace> pace_;
  std::chrono::steady_clock::time_point next_pace_{};
  double silent_seconds_ = 0;
  bool ended_ = false;
};

}  // namespace reveal
