// One node of a running job as a page shows it: read from its trace here, or received from the watch on that node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "postproc/live/live_trace.h"
#include "postproc/live/pace.h"

namespace reveal {

struct NodeView {
  std::string node;
  LiveState state = LiveState::waiting;
  std::string problem;  // why there is no row yet; "": nothing is known to be wrong
  double seconds = 0;   // seconds of the job
  std::size_t channels = 0;
  std::optional<double> collector_percent;  // percent of a core
  std::int64_t heard_utc_ns = 0;            // its newest row; 0: none yet
  double silent_seconds = 0;
  Pace pace;
  std::string job, job_name, command;
  struct Meter {
    std::string metric;
    std::vector<double> values;  // one value a second, the newest last; NaN: not measured
    bool operator==(const Meter&) const = default;
  };
  std::vector<Meter> meters;

  [[nodiscard]] bool ended() const { return state == LiveState::closed; }
  bool operator==(const NodeView&) const = default;
};

/// An interval that was over before the watch could see it, from the collector's own rough check.
struct EarlierInterval {
  std::string node;
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;
  std::int64_t channels = 0;     // counters outside their ranges at once
  std::int64_t of_channels = 0;  // counters whose rate had changed at all
  std::string farthest;          // the counter that was farthest outside: "cpu.user/cpu3"
  std::string direction;         // above or below; "": an older collector
  std::string program = {};      // name of its process; "": it has none, or it is not known
  bool operator==(const EarlierInterval&) const = default;
};

/// The report of the watch on a node to the machine from which the job is watched, every few seconds.
struct NodeReport {
  NodeView view;
  std::string hang;        // sentence; "": none, judged by the ranks of this node alone
  bool has_calls = false;  // the calls of its ranks are measured
  std::int64_t runs = 0;
  std::int64_t runs_skipped = 0;
  std::optional<double> watching_percent;  // percent of a core
  bool operator==(const NodeReport&) const = default;
};

}  // namespace reveal
