// Calls of the job's processes into the software stack (stack.*: --stack), summed for the rules about them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/telemetry/call_facts.h"

namespace reveal {

/// Some functions of one process, in an interval.
struct CallSums {
  double calls = 0;
  double sized = 0;  // calls of those functions with known bytes
  double bytes = 0;
  double seconds = 0;                  // in these calls, of all threads
  std::vector<std::size_t> channels;   // channels of the calls
  std::optional<std::size_t> dearest;  // channel of the function with the most time
  double dearest_seconds = 0;
};

/// The calls by process of the functions for which `counts` is true. Throws Unavailable where no time was measured.
[[nodiscard]] std::map<std::string, CallSums> calls_by_process(const RuleContext& context, Interval at,
                                                               const std::function<bool(const CallFacts&)>& counts);

/// Share of the windows of ten seconds with a call, so that the time between two steps of the job does not matter.
[[nodiscard]] double share_of_windows(const RuleContext& context, const CallSums& sums, Interval at);

/// Calls per second of all processes in the part of the interval in which they were counted, which may end early: a
/// function with too many calls is detached. Nothing if that part is shorter than five seconds.
[[nodiscard]] std::optional<double> counted_rate(const RuleContext& context, Interval at,
                                                 const std::function<bool(const CallFacts&)>& counts);

/// The part of the recording after the rule's min_after; empty if it is shorter than the rule's min_seconds.
[[nodiscard]] Interval after_start(const RuleContext& context);

/// Rows of the tables of these rules.
inline constexpr Threshold kMinAfterStart{"min_after", 60, "s", "time of start-up, which does not count"};
inline constexpr Threshold kMinAfterSeconds{"min_seconds", 60, "s", "least time after it"};

}  // namespace reveal
