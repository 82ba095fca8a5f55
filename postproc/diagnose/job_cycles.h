// The job's own cycles, without a look into it: a job that reads its data or writes a checkpoint once in a while does
// so in a burst, and does the same work from one burst to the next. An interval cost the job the time by which the
// cycles that it touches took longer than the others. Windows of the interval's length tell less of such a job, because
// they hold a burst more or less.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/excursion.h"

namespace reveal {

/// A counter of work over time, in bytes per second.
struct WorkCourse {
  std::string_view calls;
  std::vector<double> rate;
};

/// The cycles that an interval touches, against the others; times are in samples.
struct WorkCycles {
  std::string_view calls;
  double count = 0;   // cycles that are touched
  double took = 0;    // time of these
  double usual = 0;   // median of the others
  double spread = 0;  // range of eight tenths of these, relative to their median, as it is of `count` of them

  [[nodiscard]] double lost() const { return took - count * usual; }
  /// Whether they took longer by more than they vary.
  [[nodiscard]] bool slower() const;
  /// Whether they took as long as usual; neither where they differ by less than they vary.
  [[nodiscard]] bool went_on() const;
  /// "3 cycles of the job, from burst to burst of its read calls (sockets included), took 15.8 s instead of 13.8 s", or
  /// where they were no slower "... took 13.7 s, otherwise 13.8 s".
  [[nodiscard]] std::string words(std::string_view subject, double step_seconds) const;
};

/// Returns the cycles of the steadiest course. Nothing where no course has four other cycles that are even, each with
/// the same work and no longer than the interval, where the delay is longer than the interval, or where two courses
/// contradict each other. The first `loading` samples are left out.
[[nodiscard]] std::optional<WorkCycles> work_cycles(std::span<const WorkCourse> work, Interval at, std::size_t loading);

}  // namespace reveal
