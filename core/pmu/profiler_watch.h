// The PMU belongs to the user first: whether a profiler of the user's own runs in the job, or other programs take the
// counters, and until when reveal leaves them alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/job/job.h"

namespace reveal {

/// The name of a program that uses the processor's counters itself: perf, likwid-perfctr, vtune ...; also of one that
/// is named after it ("perf-5.10"). Names are cut by the kernel at 15 letters.
[[nodiscard]] bool is_profiler(std::string_view command) noexcept;

class ProfilerWatch {
 public:
  /// How often in a row counters must have got less than kLeastCounted of their time, and for how long they are then
  /// left alone. A profiler that ended is forgotten sooner.
  static constexpr int kStarvedTicks = 20;
  static constexpr std::int64_t kPauseNs = 60'000'000'000;
  static constexpr std::int64_t kPauseAfterProfilerNs = 5'000'000'000;

  /// Each tick, before reading. `counted_share` as ScaledSums has it; -1: not known. True: counters are to be closed,
  /// or to stay so.
  bool step_back(std::int64_t now_ns, const Job* job, double counted_share);
  /// Why, for the reader of the report; "" when it never happened.
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
  [[nodiscard]] static std::string profiler_of(const Job* job);

  std::int64_t next_look_ns_ = 0;
  std::int64_t until_ns_ = 0;
  int starved_ = 0;
  std::string reason_;
};

}  // namespace reveal
