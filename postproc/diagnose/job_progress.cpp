#include "postproc/diagnose/job_progress.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

struct WorkMetric {
  std::string_view metric;
  std::string_view verb;
};
constexpr WorkMetric kWork[] = {{"process.read_by_calls", "read"}, {"process.written_by_calls", "wrote"}};

constexpr double kSteady = 0.3;         // range of eight tenths of the windows, relative to their median
constexpr double kLeastFall = 0.05;     // a smaller fall is no slow-down
constexpr double kContradiction = 0.2;  // between the two metrics

/// One metric in the interval, against windows of the same length in the rest of the run.
struct Pace {
  WorkMetric work;
  double inside = 0;
  double usual = 0;
  double spread = 0;

  [[nodiscard]] double fall() const { return 1 - inside / usual; }
};

double at_quantile(const std::vector<double>& sorted, double quantile) {
  return sorted[static_cast<std::size_t>(std::lround(quantile * static_cast<double>(sorted.size() - 1)))];
}

std::optional<Pace> pace_of(const RuleContext& context, const WorkMetric& work, Interval at) {
  const auto bytes = rate(context, work.metric, 1, "bytes/s");
  if (!bytes) return std::nullopt;
  const Interval begin{0, std::min(context.steps(2), context.telemetry.samples)};  // programs load in it
  const Interval excluded[] = {begin, at};
  const std::vector<double> windows = reference_means(bytes->values, excluded, at.length());
  const double inside = mean_inside(bytes->values, at);
  if (windows.size() < std::max<std::size_t>(4, at.length() / 2) || std::isnan(inside)) return std::nullopt;
  Pace pace{work, inside, at_quantile(windows, 0.5), 0};
  if (!(pace.usual > 0)) return std::nullopt;
  pace.spread = (at_quantile(windows, 0.9) - at_quantile(windows, 0.1)) / pace.usual;
  return pace.spread <= kSteady ? std::optional(pace) : std::nullopt;
}

std::size_t sample_at(const RuleContext& context, std::int64_t utc_ns) {
  const double seconds = static_cast<double>(utc_ns - context.telemetry.begin_utc_ns) * 1e-9;
  const auto sample = std::llround(seconds / context.telemetry.step_seconds);
  return static_cast<std::size_t>(std::clamp<long long>(sample, 0, static_cast<long long>(context.telemetry.samples)));
}

bool weighs_loss(const RuleSpec& rule) {
  return std::any_of(rule.thresholds.begin(), rule.thresholds.end(),
                     [](const Threshold& one) { return one.name == kMinLostSeconds.name; });
}

}  // namespace

std::optional<LostProgress> lost_progress(const RuleContext& context, Interval at) {
  std::optional<Pace> best;
  for (const WorkMetric& work : kWork) {
    const auto pace = pace_of(context, work, at);
    if (!pace) continue;
    if (best && std::abs(best->fall() - pace->fall()) > kContradiction) return std::nullopt;
    if (!best || pace->spread < best->spread) best = pace;
  }
  if (!best || best->fall() <= std::max(kLeastFall, best->spread)) return std::nullopt;
  return LostProgress{best->fall(), fmt::format("{} {} {} instead of {}", context.watched(), best->work.verb,
                                                quantity(best->inside, "bytes/s"), quantity(best->usual, "bytes/s"))};
}

void refine_loss(const RuleContext& context, Finding& finding) {
  const std::optional<double> estimated = finding.impact.seconds;
  if (!estimated || finding.intervals.size() != 1 || !weighs_loss(context.spec)) return;
  const Interval at{sample_at(context, finding.intervals.front().begin_utc_ns),
                    sample_at(context, finding.intervals.front().end_utc_ns)};
  const auto lost = at.end > at.begin ? lost_progress(context, at) : std::nullopt;
  if (!lost) return;
  const double seconds = lost->share * context.seconds(at.length());
  if (finding.impact.at_most && seconds > *estimated) return;
  finding.impact.at_most = false;
  set_loss(context, finding, seconds, lost->how);
  // Some sentences have the estimate.
  const std::string told = fmt::format("the job lost about {} s", number(*estimated));
  if (const std::size_t place = finding.sentence.find(told); place != std::string::npos) {
    finding.sentence.replace(place, told.size(), fmt::format("the job lost about {} s", number(seconds)));
  }
}

}  // namespace reveal
