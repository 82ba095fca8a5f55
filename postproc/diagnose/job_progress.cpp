#include "postproc/diagnose/job_progress.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/numerics/percentile.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr double kSteady = 0.3;         // largest spread of an even pace
constexpr double kLeastFall = 0.05;     // a smaller fall is no slow-down
constexpr double kLeastPace = 1e6;      // bytes/s
constexpr double kContradiction = 0.2;  // between the two metrics
constexpr double kLoadingSeconds = 2;   // programs load in the first seconds

std::optional<WorkPace> course_pace(const WorkCourse& work, Interval at, std::size_t loading, std::size_t window) {
  const Interval excluded[] = {{0, std::min(loading, work.rate.size())}, at};
  std::vector<double> windows = window_means(work.rate, excluded, window);
  const double inside = mean_inside(work.rate, at);
  if (windows.size() < std::max<std::size_t>(4, window / 2) || std::isnan(inside)) return std::nullopt;
  WorkPace pace{work.calls, inside, at_quantile(windows, 0.5), 0};
  if (!(pace.usual > 0)) return std::nullopt;
  pace.spread = (at_quantile(windows, 0.9) - at_quantile(windows, 0.1)) / pace.usual;
  return pace.spread <= kSteady ? std::optional(pace) : std::nullopt;
}

std::optional<WorkPace> pace_of_job(const RuleContext& context, Interval at) {
  return context.progress == nullptr ? std::nullopt : context.progress->pace(context, at);
}

}  // namespace

bool WorkPace::fell() const {
  return lost() > std::max(kLeastFall, spread);
}

bool WorkPace::is_work() const {
  return usual >= kLeastPace;
}

bool WorkPace::went_on() const {
  return is_work() && most_lost <= kLeastFall && -lost() <= kSteady;
}

std::string WorkPace::words(std::string_view subject) const {
  const std::string who = fmt::format("the {} calls (sockets included) of {}", calls, subject);
  const std::string then = quantity(inside, "bytes/s");
  const std::string otherwise = quantity(usual, "bytes/s");
  if (fell()) return fmt::format("{} moved {} instead of {}", who, then, otherwise);
  return fmt::format("{} {}: {}, otherwise {}", who, lost() > 0 ? "moved hardly less" : "were no slower", then,
                     otherwise);
}

std::optional<WorkPace> work_pace(std::span<const WorkCourse> work, Interval at, std::size_t loading,
                                  std::size_t window) {
  std::optional<WorkPace> best;
  double most_lost = -1;
  for (const WorkCourse& course : work) {
    const auto pace = course_pace(course, at, loading, window == 0 ? at.length() : window);
    if (!pace) continue;
    if (best && std::abs(best->lost() - pace->lost()) > kContradiction) return std::nullopt;
    if (pace->is_work()) most_lost = std::max(most_lost, pace->lost());
    if (!best || pace->spread < best->spread) best = pace;
  }
  if (best) best->most_lost = most_lost;
  return best;
}

const std::vector<WorkCourse>& JobProgress::work(const RuleContext& context) {
  if (!work_) {
    work_.emplace();
    for (const WorkMetric& one : kWorkMetrics) {
      if (auto bytes = rate(context, one.metric, 1, "bytes/s")) work_->push_back({one.calls, std::move(bytes->values)});
    }
  }
  return *work_;
}

std::optional<WorkPace> JobProgress::pace(const RuleContext& context, Interval at) {
  return work_pace(work(context), at, context.steps(kLoadingSeconds));
}

std::optional<WorkCycles> JobProgress::cycles(const RuleContext& context, Interval at) {
  return work_cycles(work(context), at, context.steps(kLoadingSeconds));
}

std::optional<LostWork> lost_work(const RuleContext& context, Interval at) {
  // A few cycles say little about how much they vary.
  constexpr double kClearlySteadier = 0.5;
  if (context.progress == nullptr) return std::nullopt;
  const auto pace = context.progress->pace(context, at);
  const auto cycles = context.progress->cycles(context, at);
  const double step = context.telemetry.step_seconds;
  if (cycles && (!pace || cycles->spread <= kClearlySteadier * pace->spread)) {
    if (!(cycles->slower() || cycles->went_on())) return std::nullopt;
    const double lost = cycles->slower() ? std::min(cycles->lost(), static_cast<double>(at.length())) : 0;
    return LostWork{step * lost, cycles->words(context.watched(), step)};
  }
  if (!pace || !(pace->fell() || pace->went_on())) return std::nullopt;
  return LostWork{pace->fell() ? pace->lost() * context.seconds(at.length()) : 0, pace->words(context.watched())};
}

std::optional<WorkPace> slower_work(const RuleContext& context, Interval at) {
  const auto pace = pace_of_job(context, at);
  return pace && pace->fell() ? pace : std::nullopt;
}

std::optional<WorkPace> work_that_went_on(const RuleContext& context, Interval at) {
  const auto pace = pace_of_job(context, at);
  return pace && pace->went_on() ? pace : std::nullopt;
}

}  // namespace reveal
