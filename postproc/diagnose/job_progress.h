// The job's own pace, without a look into it: a job that does the same work again and again reads and writes the same
// amount in equal times. In a disturbed interval it reads and writes less, by the part of the work that it did not do.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"

namespace reveal {

/// Counters of work: bytes of the job's read and write calls.
struct WorkMetric {
  std::string_view metric;
  std::string_view calls;
};
inline constexpr WorkMetric kWorkMetrics[] = {{"process.read_by_calls", "read"}, {"process.written_by_calls", "write"}};

/// One of them over time, in bytes per second.
struct WorkCourse {
  std::string_view calls;
  std::vector<double> rate;
};

/// A metric in an interval, against windows of the same length in the rest of the run.
struct WorkPace {
  std::string_view calls;
  double inside = 0;
  double usual = 0;
  double spread = 0;  // range of eight tenths of the windows, relative to their median

  /// Part of the usual work that was not done, between 0 and 1; negative where more was done.
  [[nodiscard]] double lost() const { return 1 - inside / usual; }
  /// Whether it fell by more than it varies.
  [[nodiscard]] bool fell() const;
  /// "the read calls of the job moved 2 MiB/s instead of 9 MiB/s"
  [[nodiscard]] std::string words(std::string_view subject) const;
};

/// Returns the pace of the steadiest course. Nothing where no course comes at an even pace outside of the interval and
/// of the first `loading` steps, or where two such courses contradict each other.
[[nodiscard]] std::optional<WorkPace> work_pace(std::span<const WorkCourse> work, Interval at, std::size_t loading = 0);

/// The progress of the job on one node, for all findings of the node: its courses are added up once.
class JobProgress {
 public:
  /// Returns the pace in an interval in which the job on this node did less than usual, else nothing.
  [[nodiscard]] std::optional<WorkPace> slower(const RuleContext& context, Interval at);

 private:
  std::optional<std::vector<WorkCourse>> work_;
};

/// The same of the context's node; nothing where its progress is not known.
[[nodiscard]] std::optional<WorkPace> slower_work(const RuleContext& context, Interval at);

}  // namespace reveal
