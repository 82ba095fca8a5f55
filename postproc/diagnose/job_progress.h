// The job's own pace, without a look into it: a job that does the same work again and again reads and writes the same
// amount in equal times. In a disturbed interval it reads and writes less, by the part of the work that it did not do.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/job_cycles.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"

namespace reveal {

/// Counters of work: bytes of the job's read and write calls.
struct WorkMetric {
  std::string_view metric;
  std::string_view calls;
};
inline constexpr WorkMetric kWorkMetrics[] = {{"process.read_by_calls", "read"}, {"process.written_by_calls", "write"}};

/// A metric in an interval, against windows of the same length in the rest of the run.
struct WorkPace {
  std::string_view calls;
  double inside = 0;
  double usual = 0;
  double spread = 0;     // range of eight tenths of the windows, relative to their median
  double most_lost = 0;  // the largest of all even courses that are work

  /// Part of the usual work that was not done, between 0 and 1; negative where more was done.
  [[nodiscard]] double lost() const { return 1 - inside / usual; }
  /// Whether it fell by more than it varies.
  [[nodiscard]] bool fell() const;
  /// Whether it is usually so much that it is work: a thread may write a few bytes of a log whatever the job does.
  [[nodiscard]] bool is_work() const;
  /// Whether as much work was done as usual, in each course: much more is other work.
  [[nodiscard]] bool went_on() const;
  /// "the read calls (sockets included) of the job moved 2 MiB/s instead of 9 MiB/s", or where they did not fall "...
  /// were no slower: 9 MiB/s, otherwise 8 MiB/s".
  [[nodiscard]] std::string words(std::string_view subject) const;
};

/// Returns the pace of the steadiest course. Nothing where no course comes at an even pace outside of the interval and
/// of the first `loading` steps, or where two such courses contradict each other. Windows may be shorter than the
/// interval (`window` steps): they vary more, so that fewer courses are even, but need less time to compare with.
[[nodiscard]] std::optional<WorkPace> work_pace(std::span<const WorkCourse> work, Interval at, std::size_t loading = 0,
                                                std::size_t window = 0);

/// The progress of the job on one node, for all findings of the node: its courses are added up once.
class JobProgress {
 public:
  /// Returns the pace in an interval; nothing where it is not known.
  [[nodiscard]] std::optional<WorkPace> pace(const RuleContext& context, Interval at);
  /// Likewise.
  [[nodiscard]] std::optional<WorkCycles> cycles(const RuleContext& context, Interval at);

 private:
  const std::vector<WorkCourse>& work(const RuleContext& context);

  std::optional<std::vector<WorkCourse>> work_;
};

/// The cost of an interval on one node, by the work of the job.
struct LostWork {
  double seconds = 0;  // 0: as much was done as usual
  std::string how;
};
/// By the job's cycles where they are clearly steadier than its pace, else by the pace. Nothing where neither is known,
/// or where it changed by less than it varies.
[[nodiscard]] std::optional<LostWork> lost_work(const RuleContext& context, Interval at);

/// Returns the pace in an interval in which the job on the context's node did less than usual, else nothing.
[[nodiscard]] std::optional<WorkPace> slower_work(const RuleContext& context, Interval at);
/// Returns the pace in an interval in which it is known to have done as much as usual, else nothing.
[[nodiscard]] std::optional<WorkPace> work_that_went_on(const RuleContext& context, Interval at);

}  // namespace reveal
