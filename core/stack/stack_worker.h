// The part of the probe "stack" that may take long, for its worker process: finds the libraries of the job's processes,
// attaches to their functions, reads the counts, and detaches what costs the job too much.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// "open" -> "ok WAY ENTRY_NS TIMED_NS BIAS_NS": what a counted and a timed call are delayed by, and what a duration
/// has of that; or "none WHY". "calls", and a line "INSTANCE PID START_TICKS CPU_NS" for each process -> lines
///   "functions NAME ..."  which are counted somewhere
///   "note SENTENCE"       what is not measured, and why
///   "count INSTANCE NAME CALLS BYTES TIME LONGEST IN_FLIGHT ERRORS LAST_ERROR"
/// The numbers of an instance are sums over all its processes; LONGEST since the last answer, IN_FLIGHT since when the
/// oldest call is under way, both in nanoseconds; "-" where it is not measured. The worker attaches to new functions
/// after it has answered, while nobody waits.
[[nodiscard]] std::string ask_stack(const std::string& root, std::string_view request);

/// Which function must be detached, if any, so that counting stays within its share of the processes' cpu time.
class CallBudget {
 public:
  static constexpr double kShare = 0.005;
  /// What may be spent at once: a program that starts allocates in bursts.
  static constexpr double kBurstNs = 50e6;

  void begin(double cpu_ns) noexcept;
  void spend(int function, double calls, double cost_ns) noexcept;
  /// -1: none.
  [[nodiscard]] int end() noexcept;

 private:
  double left_ns_ = kBurstNs;
  double most_ns_ = 0;
  int dearest_ = -1;
};

}  // namespace reveal
