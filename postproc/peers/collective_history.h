// When the ranks of one node entered some of their collectives, small enough for its summary: the ranks of all nodes
// are matched by the numbers of the calls, which shows the rank for which the others wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "postproc/telemetry/load.h"

namespace reveal {

/// The calls of one rank on one communicator, or a part of them.
struct CollectiveTrend {
  std::string rank;
  std::string function;           // that it called most often
  std::int64_t communicator = 0;  // its place among those of the process, from 0
  std::int64_t ranks = 0;         // 0: not known
  std::int64_t id = 0;            // equal on its ranks, whose numbers mean the same calls then; 0: not known
  std::int64_t last = 0;          // number of the last call that was seen
  bool ended = false;             // the process has ended: that call was its last one
  std::int64_t first = 0;         // number of the first point
  std::int64_t begin_utc_ns = 0;  // when it was entered
  std::string points;             // from each one to the next: calls and microseconds, "1:2500 198:495000"
  bool operator==(const CollectiveTrend&) const = default;
};

struct CollectiveHistory {
  std::vector<CollectiveTrend> trends;
  bool operator==(const CollectiveHistory&) const = default;
};

[[nodiscard]] CollectiveHistory collective_history_of(const NodeTrace& trace);

struct EnteredCall {
  std::int64_t number = 0;
  double seconds = 0;  // UTC
};
/// The points of a trend, with ascending numbers and times.
[[nodiscard]] std::vector<EnteredCall> entered_calls(const CollectiveTrend& trend);

}  // namespace reveal
