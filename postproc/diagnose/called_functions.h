// Calls of the job's processes into the software stack (stack.*: --stack), summed for the rules about them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/telemetry/call_facts.h"

namespace reveal {

/// Some functions of one process, in the steps of an interval in which all of them were measured: a function that costs
/// too much is counted in turns.
struct CallSums {
  std::vector<bool> measured;  // by step of the interval
  double calls = 0;
  double sized = 0;  // calls of those functions with known bytes
  double bytes = 0;
  double seconds = 0;                  // in these calls, of all threads
  std::vector<std::size_t> channels;   // channels of the calls
  std::optional<std::size_t> dearest;  // channel of the function with the most time
  double dearest_seconds = 0;

  [[nodiscard]] std::size_t measured_steps() const;
};

using CallKind = std::function<bool(const CallFacts&)>;

/// The calls by process of the functions for which `counts` is true. Throws Unavailable where no time was measured.
[[nodiscard]] std::map<std::string, CallSums> calls_by_process(const RuleContext& context, Interval at,
                                                               const CallKind& counts);
/// The same in the steps in which all of `together` were measured.
[[nodiscard]] std::map<std::string, CallSums> calls_by_process(const RuleContext& context, Interval at,
                                                               const CallKind& counts, const CallKind& together);

/// Share of the windows of ten seconds with a call, so that the time between two steps of the job does not matter.
/// Windows in which they were not measured do not count.
[[nodiscard]] double share_of_windows(const RuleContext& context, const CallSums& sums, Interval at);

/// They were measured for the rule's min_measured.
[[nodiscard]] bool is_measured_enough(const RuleContext& context, std::size_t measured);

/// A process that was in some calls all the time.
struct BusyProcess {
  std::string name;
  CallSums calls;
  double seconds = 0;  // measured
  double share = 0;    // part of it in the calls; above 1 if several threads were in them
  double rate = 0;     // calls per second
};

/// The process with the most time in its calls; nothing if that is less than the rule's min_share, if they were
/// measured for less than its min_measured, or if fewer than half of the windows have one.
[[nodiscard]] std::optional<BusyProcess> busiest_process(const RuleContext& context, Interval at,
                                                         const std::map<std::string, CallSums>& processes);

/// The interval without the time at its ends in which the process spent next to nothing (1 %) in its dearest calls;
/// time in which they were not measured stays.
[[nodiscard]] Interval busy_part(const RuleContext& context, const CallSums& sums, Interval at);

/// "; measured in 12 of 32 s"; "" if they were measured in (nearly) all of the interval.
[[nodiscard]] std::string part_measured(const RuleContext& context, std::size_t measured, Interval at);

/// `share` of the interval as the impact, at most. If a part of it was not measured, it is taken to be like the rest,
/// and `how` states that.
void set_most_loss_of_share(const RuleContext& context, Finding& finding, double share, std::size_t measured,
                            Interval at, std::string how);

/// Appends how long half and 99 % of the calls of a function took at most ("rank0/python.gc"), by powers of two
/// (stack.histogram). Nothing if that was not measured.
void add_durations(const RuleContext& context, const std::string& instance, Interval at, Finding& finding);

/// Growth per second of a counter of calls (stack.calls, stack.time), by process, in the part of the interval in which
/// they were counted. A process for which that part is shorter than a second is left out.
[[nodiscard]] std::map<std::string, double> counted_rates(const RuleContext& context, std::string_view metric,
                                                          Interval at, const CallKind& counts);

/// The part of the recording after the rule's min_after; empty if it is shorter than the rule's min_seconds.
[[nodiscard]] Interval after_start(const RuleContext& context);

/// Rows of the tables of these rules.
inline constexpr Threshold kMinAfterStart{"min_after", 60, "s", "time of start-up, which does not count"};
inline constexpr Threshold kMinAfterSeconds{"min_seconds", 60, "s", "least time after it"};
inline constexpr Threshold kMinMeasured{"min_measured", 5, "s", "least part of it in which the calls were measured"};

}  // namespace reveal
