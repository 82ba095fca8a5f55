// The ranks of one node for the comparison of all ranks of a job, and how well the clocks of two nodes are known
// against each other.
#pragma once

#include <string_view>

#include "postproc/peers/call_history.h"
#include "postproc/peers/collective_history.h"
#include "postproc/peers/step_history.h"

namespace reveal {

inline const StepHistory kNoSteps{};
inline const CallHistory kNoCalls{};
inline const CollectiveHistory kNoCollectives{};

/// The histories must outlive it.
struct NodeRanks {
  std::string_view node;
  std::string_view boot_id = {};  // equal: one clock
  double clock_error_seconds = 0;
  const StepHistory& steps = kNoSteps;
  const CallHistory& calls = kNoCalls;  // when they called nothing that waits for other ranks
  const CollectiveHistory& collectives = kNoCollectives;
};

/// By how much times of two nodes may be apart that are the same, in seconds. Nodes of one boot of a kernel have one
/// clock.
[[nodiscard]] inline double clock_error_between(const NodeRanks& a, const NodeRanks& b) {
  const bool one_clock = a.node == b.node || (!a.boot_id.empty() && a.boot_id == b.boot_id);
  return one_clock ? 0 : a.clock_error_seconds + b.clock_error_seconds;
}

}  // namespace reveal
