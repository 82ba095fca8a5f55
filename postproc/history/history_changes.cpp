#include "postproc/history/history_changes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/numerics/mean_difference.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/moderated_t.h"
#include "postproc/peers/peer_groups.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kOldestRuns = 5;  // the reference of a drift
constexpr std::size_t kRunsForDrift = 10;
constexpr double kDiscoveryRate = 0.05;
constexpr double kLeastPercent = 15;
constexpr double kDriftPercent = 20;
constexpr double kLeastRunSpread = 4e-4;  // variance between runs: two percent, squared
constexpr double kRunTimeP = 0.01;
constexpr double kRunTimePriorDf = 2;
constexpr std::size_t kRunsWithOutliers = 8;
constexpr double kFarShorter = 8;  // spreads of the four fifths of the runs that are nearest to the median

/// Median and spread of a few runs, as of a normal distribution. The median absolute deviation of three runs is often 0
/// by chance; the mean one is then the better guess.
struct UsualRuns {
  double median = 0;
  double variance = 0;
  std::size_t runs = 0;
};

UsualRuns baseline_of(const std::vector<double>& levels) {
  UsualRuns baseline;
  baseline.runs = levels.size();
  baseline.median = median_of(levels);
  std::vector<double> away;
  double mean = 0;
  for (const double level : levels) {
    away.push_back(std::abs(level - baseline.median));
    mean += away.back() / static_cast<double>(levels.size());
  }
  const double spread = std::max(kSpreadOverMad * median_of(away), kSpreadOverMeanDeviation * mean);
  baseline.variance = spread * spread;
  return baseline;
}

double t_of(double level, const UsualRuns& baseline, const VariancePrior& prior) {
  const auto runs = static_cast<double>(baseline.runs);
  return t_against_median(level - baseline.median, prior.moderated(baseline.variance, runs - 1), runs);
}

/// One quantity over the baseline, oldest run first.
struct Series {
  HistoryChange change;
  double floor = 1;
  double now = 0;
  std::vector<double> before;
};

/// The runs of the baseline that are compared.
struct Reference {
  enum class Which : std::uint8_t { last, oldest } which = Which::last;  // oldest: for a drift
  std::size_t runs = 0;
  double least_percent = 0;
  std::int64_t since_utc_ns = 0;  // begin of the latest of them
};

std::vector<double> levels_of(const Series& series, const Reference& reference) {
  const std::span<const double> before(series.before);
  const std::size_t count = std::min(reference.runs, before.size());
  std::vector<double> levels;
  levels.reserve(count);
  for (const double value : reference.which == Reference::Which::oldest ? before.first(count) : before.last(count)) {
    levels.push_back(activity_of(value, series.floor));
  }
  return levels;
}

/// Appends the series that changed, unless `changes` has them already.
void test_all(const std::vector<Series>& all, const Reference& reference, std::vector<HistoryChange>& changes) {
  std::vector<UsualRuns> baselines;
  std::vector<double> variances;
  std::size_t usual_runs = kLeastRuns;
  for (const Series& series : all) {
    baselines.push_back(baseline_of(levels_of(series, reference)));
    variances.push_back(baselines.back().variance);
    usual_runs = std::max(usual_runs, baselines.back().runs);
  }
  const VariancePrior prior = variance_prior(variances, static_cast<double>(usual_runs - 1), kLeastRunSpread);
  std::vector<double> t(all.size());
  std::vector<double> p(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    t[i] = t_of(activity_of(all[i].now, all[i].floor), baselines[i], prior);
    p[i] = two_sided_p(t[i], static_cast<double>(baselines[i].runs - 1) + prior.df);
  }
  const double limit = discovery_limit(p, kDiscoveryRate);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (p[i] > limit) continue;
    HistoryChange change = all[i].change;
    change.observed = all[i].now;
    change.expected = all[i].floor * std::expm1(baselines[i].median);
    const double difference = all[i].now - *change.expected;
    change.percent = 100 * difference / std::max(std::abs(*change.expected), all[i].floor);
    if (std::abs(change.percent) < reference.least_percent || std::abs(difference) < all[i].floor) continue;
    const bool known = std::any_of(changes.begin(), changes.end(),
                                   [&](const HistoryChange& other) { return other.name == change.name; });
    if (known) continue;
    change.t = t[i];
    change.since_utc_ns = reference.since_utc_ns;
    change.drift = reference.which == Reference::Which::oldest;
    changes.push_back(std::move(change));
  }
}

double variance_of_levels(const std::vector<double>& values) {
  const double mean = arithmetic_mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / static_cast<double>(values.size() - 1);
}

double variance_of_run_times(const std::vector<double>& levels) {
  return std::max(baseline_of(levels).variance, variance_of_levels(levels));
}

/// Runs that were far shorter than all others, a fifth at most, had little to do: beside one of them no slow run would
/// stand out.
void leave_out_far_shorter(std::vector<double>& levels) {
  if (levels.size() < kRunsWithOutliers) return;
  const double median = median_of(levels);
  std::vector<double> nearest = levels;
  std::sort(nearest.begin(), nearest.end(),
            [median](double a, double b) { return std::abs(a - median) < std::abs(b - median); });
  nearest.resize(nearest.size() - nearest.size() / 5);
  const double spread = std::sqrt(std::max(variance_of_run_times(nearest), kLeastRunSpread));
  std::erase_if(levels, [&](double level) { return level < median - kFarShorter * spread; });
}

/// The spread of a few runs is often too small by chance: the usual spread of run times makes it larger, never smaller.
/// With a standard deviation of 20 %, 1.8 of 100 equal runs then take longer than 3 others (simulated), and 4.3 with a
/// spread between both.
double t_of_run_time(double level, const std::vector<double>& levels, const UsualRuns& baseline) {
  const auto runs = static_cast<double>(baseline.runs);
  const double own = variance_of_run_times(levels);
  const double variance = std::max(own, VariancePrior{kLeastRunSpread, kRunTimePriorDf}.moderated(own, runs - 1));
  return t_against_median(level - baseline.median, variance, runs);
}

/// True when the run took longer or shorter than these runs by more than they differ among themselves.
bool run_time_changed(const RunRecord& run, std::span<const RunRecord* const> baseline_runs, bool drift,
                      const AnalysisSettings& settings, HistoryComparison& history) {
  std::vector<double> levels;
  for (const RunRecord* record : baseline_runs) levels.push_back(std::log(std::max(record->seconds, 0.1)));
  const double median = median_of(levels);
  leave_out_far_shorter(levels);
  const UsualRuns baseline{.median = median, .runs = levels.size()};
  const double t = t_of_run_time(std::log(std::max(run.seconds, 0.1)), levels, baseline);
  const double expected = std::exp(baseline.median);
  const double percent = 100 * (run.seconds - expected) / expected;
  const double least = EffectiveRule(drift ? "history.drift" : "history.slower", settings).threshold("min_percent");
  const double least_seconds = EffectiveRule("history.slower", settings).threshold("min_seconds");
  if (std::abs(percent) < least || std::abs(run.seconds - expected) < least_seconds ||
      two_sided_p(t, static_cast<double>(baseline.runs - 1) + kRunTimePriorDf) > kRunTimeP) {
    return false;
  }
  HistoryChange change{
      .what = HistoryChange::What::run_time, .name = "run time", .unit = "s", .subsystem = Subsystem::process};
  change.observed = run.seconds;
  change.expected = four_digits(expected);
  change.percent = percent;
  change.t = t;
  change.since_utc_ns = baseline_runs.back()->begin_utc_ns;
  change.drift = drift;
  history.changes.push_back(std::move(change));
  return true;
}

/// Returns the series of all channels that this run and enough of the others measured, and that are not negligible.
std::vector<Series> series_of(const RunRecord& run, const std::vector<const RunRecord*>& baseline_runs) {
  std::vector<Series> all;
  std::set<std::string> names;
  for (const RunChannel& channel : run.channels) names.insert(channel.name);
  for (const RunRecord* record : baseline_runs) {
    for (const RunChannel& channel : record->channels) names.insert(channel.name);
  }
  for (const std::string& name : names) {
    Series series;
    series.now = run.value_of(name);
    const RunChannel* any = run.find(name);
    for (const RunRecord* record : baseline_runs) {
      const RunChannel* theirs = record->find(name);
      if (any == nullptr) any = theirs;
      if (theirs != nullptr && theirs->unit != any->unit) continue;  // by another version of reveal
      const double then = record->value_of(name);
      if (!std::isnan(then)) series.before.push_back(then);
    }
    // Not measured is not 0: it counts for neither side.
    if (std::isnan(series.now) || series.before.size() < kLeastRuns) continue;
    series.floor = unit_floor(any->unit, any->kind);
    series.change = {
        .what = HistoryChange::What::channel, .name = name, .unit = any->unit, .subsystem = any->subsystem};
    const double largest = std::max(series.now, *std::max_element(series.before.begin(), series.before.end()));
    if (largest >= 0.1 * series.floor) all.push_back(std::move(series));
  }
  return all;
}

}  // namespace

void compare_run_time(const RunRecord& run, const std::vector<const RunRecord*>& baseline_runs,
                      const AnalysisSettings& settings, HistoryComparison& history) {
  const std::span<const RunRecord* const> all(baseline_runs);
  if (run_time_changed(run, all.last(std::min(all.size(), kRecentRuns)), false, settings, history)) return;
  if (all.size() >= kRunsForDrift) run_time_changed(run, all.first(kOldestRuns), true, settings, history);
}

void compare_channels(const RunRecord& run, const std::vector<const RunRecord*>& baseline_runs,
                      HistoryComparison& history) {
  const std::vector<Series> all = series_of(run, baseline_runs);
  history.channels = all.size();
  if (all.empty()) return;
  std::vector<HistoryChange> changes;
  test_all(all, {Reference::Which::last, kRecentRuns, kLeastPercent, baseline_runs.back()->begin_utc_ns}, changes);
  if (baseline_runs.size() >= kRunsForDrift) {
    test_all(all, {Reference::Which::oldest, kOldestRuns, kDriftPercent, baseline_runs[kOldestRuns - 1]->begin_utc_ns},
             changes);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const HistoryChange& a, const HistoryChange& b) { return std::abs(a.t) > std::abs(b.t); });
  if (changes.size() > kMostChanges) {
    history.changes_left_out = changes.size() - kMostChanges;
    changes.resize(kMostChanges);
  }
  history.changes.insert(history.changes.end(), changes.begin(), changes.end());
}

}  // namespace reveal
