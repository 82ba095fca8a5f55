#include "postproc/diagnose/job_cycles.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/numerics/percentile.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kSameBurst = 5;    // samples: a file is read in several of them
constexpr double kShortestCycle = 8;     // samples: the begin of a burst is known to one of them
constexpr std::size_t kLeastCycles = 4;  // to compare with
constexpr double kDistinctBurst = 2;     // height of a burst, relative to the level between bursts
constexpr double kEvenCycles = 0.3;      // largest range of eight tenths of their times or work, relative to the median
constexpr double kLeastDelay = 0.05;     // a smaller one is no slow-down
constexpr double kPartOfACycle = 0.15;   // the first and the last burst are cut by samples
constexpr double kMostDelay = 1.1;       // relative to the interval, of which both ends are known to samples
constexpr double kOtherCycles = 0.2;     // difference between two courses, relative to the time of the cycles
constexpr std::size_t kLeastWindows = 3;  // with a burst each

/// The range of eight tenths of the values, relative to their median.
double relative_range(std::vector<double>& values) {
  return (at_quantile(values, 0.9) - at_quantile(values, 0.1)) / at_quantile(values, 0.5);
}

/// The begins of bursts: values above half of the way from the level in the middle to the highest ones. Cycles are no
/// longer than `window`, so that each window has a burst.
std::vector<std::size_t> bursts_of(std::span<const double> rate, std::size_t loading, std::size_t window) {
  if (window == 0) return {};
  std::vector<double> levels;
  std::vector<double> tops;
  for (std::size_t begin = loading; begin + window <= rate.size(); begin += window) {
    const std::size_t before = levels.size();
    double top = 0;
    for (const double each : rate.subspan(begin, window)) {
      if (std::isnan(each)) continue;
      levels.push_back(each);
      top = std::max(top, each);
    }
    if (levels.size() > before) tops.push_back(top);
  }
  if (levels.empty() || tops.size() < kLeastWindows) return {};
  const double level = at_quantile(levels, 0.5);
  const double top = at_quantile(tops, 0.5);
  if (!(top > kDistinctBurst * level)) return {};
  std::vector<std::size_t> bursts;
  std::size_t last = 0;
  for (std::size_t t = loading; t < rate.size(); ++t) {
    if (!(rate[t] >= (level + top) / 2)) continue;
    if (bursts.empty() || t - last > kSameBurst) bursts.push_back(t);
    last = t;
  }
  return bursts;
}

/// NaN where a sample is missing.
double work_in(std::span<const double> rate, Interval cycle) {
  double sum = 0;
  for (const double each : rate.subspan(cycle.begin, cycle.length())) sum += each;
  return sum;
}

std::optional<WorkCycles> cycles_of(const WorkCourse& course, Interval at, std::size_t loading) {
  const std::vector<std::size_t> bursts = bursts_of(course.rate, loading, at.length());
  const auto after_begin = std::upper_bound(bursts.begin(), bursts.end(), at.begin);
  const auto end = std::lower_bound(bursts.begin(), bursts.end(), at.end);
  if (after_begin == bursts.begin() || end == bursts.end()) return std::nullopt;
  const Interval touched{*(after_begin - 1), *end};
  std::vector<double> times;
  std::vector<double> works;
  for (std::size_t i = 0; i + 1 < bursts.size(); ++i) {
    const Interval cycle{bursts[i], bursts[i + 1]};
    const double work = work_in(course.rate, cycle);
    if ((cycle.begin >= touched.begin && cycle.end <= touched.end) || std::isnan(work)) continue;
    times.push_back(static_cast<double>(cycle.length()));
    works.push_back(work);
  }
  if (times.size() < kLeastCycles || relative_range(works) > kEvenCycles) return std::nullopt;
  const double usual = at_quantile(times, 0.5);
  const double range = relative_range(times);
  if (range > kEvenCycles || usual < kShortestCycle || usual > static_cast<double>(at.length())) return std::nullopt;
  // Bursts that a timer makes come at the same times whatever the job does between them.
  const auto count = static_cast<double>(end - after_begin + 1);
  const double cycles = work_in(course.rate, touched) / at_quantile(works, 0.5);
  if (!(std::abs(cycles - count) <= kPartOfACycle)) return std::nullopt;
  WorkCycles found{.calls = course.calls,
                   .count = count,
                   .took = static_cast<double>(touched.length()),
                   .usual = usual,
                   .spread = range / std::sqrt(count)};
  // Something else in the first or the last cycle delayed them, too.
  if (found.lost() > kMostDelay * static_cast<double>(at.length())) return std::nullopt;
  return found;
}

}  // namespace

bool WorkCycles::slower() const {
  return lost() > std::max(kLeastDelay, spread) * took;
}

bool WorkCycles::went_on() const {
  return std::abs(lost()) <= kLeastDelay * took;
}

std::string WorkCycles::words(std::string_view subject, double step_seconds) const {
  return fmt::format("{} of {}, from burst to burst of its {} calls (sockets included), took {}{}{}",
                     counted(count, "cycle"), subject, calls, duration(step_seconds * took),
                     slower() ? " instead of " : ", otherwise ", duration(step_seconds * count * usual));
}

std::optional<WorkCycles> work_cycles(std::span<const WorkCourse> work, Interval at, std::size_t loading) {
  std::optional<WorkCycles> best;
  for (const WorkCourse& course : work) {
    const auto cycles = cycles_of(course, at, loading);
    if (!cycles) continue;
    if (best && std::abs(best->lost() - cycles->lost()) > kOtherCycles * cycles->took) return std::nullopt;
    if (!best || cycles->spread < best->spread) best = cycles;
  }
  return best;
}

}  // namespace reveal
