#include "postproc/compare/history.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <span>

#include "postproc/compare/moderated_t.h"
#include "postproc/compare/roles.h"
#include "postproc/diagnose/quantity.h"
#include "postproc/diagnose/rule_in_force.h"

namespace reveal {
namespace {

constexpr std::string_view kStatuses[] = {"never_compared", "too_few_runs", "compared"};
constexpr std::string_view kWhats[] = {"run_time", "channel", "configuration"};

constexpr std::size_t kRecentRuns = 20;  // a baseline is no older than this many runs
constexpr std::size_t kOldestRuns = 5;   // what a drift is seen against
constexpr std::size_t kRunsForDrift = 10;
constexpr double kDiscoveryRate = 0.05;
constexpr double kLeastPercent = 15;
constexpr double kDriftPercent = 20;
constexpr double kLeastSpread = 4e-4;  // variance between runs: two percent, squared
constexpr double kRunTimeP = 0.01;
constexpr double kRunTimePriorDf = 2;
constexpr std::size_t kMostChanges = 60;
constexpr std::size_t kRunsToBeSure = 5;

template <typename Enum>
std::optional<Enum> find_name(std::span<const std::string_view> names, std::string_view name) noexcept {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Median and spread of a few runs. The median absolute deviation of three runs is often 0 by chance; the mean one is
/// then the better guess.
struct Baseline {
  double median = 0;
  double variance = 0;
  std::size_t runs = 0;
};

Baseline baseline_of(const std::vector<double>& levels) {
  Baseline baseline;
  baseline.runs = levels.size();
  baseline.median = median_of(levels);
  std::vector<double> away;
  double mean = 0;
  for (const double level : levels) {
    away.push_back(std::abs(level - baseline.median));
    mean += away.back() / static_cast<double>(levels.size());
  }
  const double spread = std::max(1.4826 * median_of(away), 1.2533 * mean);
  baseline.variance = spread * spread;
  return baseline;
}

double t_of(double level, const Baseline& baseline, const VariancePrior& prior) {
  const auto runs = static_cast<double>(baseline.runs);
  const double variance = prior.moderated(baseline.variance, runs - 1);
  return (level - baseline.median) / std::sqrt(variance * (1 + std::numbers::pi / 2 / runs));
}

std::string date_of(std::int64_t utc_ns) {
  const std::chrono::sys_time<std::chrono::nanoseconds> instant{std::chrono::nanoseconds(utc_ns)};
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(instant));
  const std::chrono::hh_mm_ss time(instant - std::chrono::floor<std::chrono::days>(instant));
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count());
}

/// One quantity over the runs that teach, oldest first.
struct Series {
  HistoryChange change;
  double floor = 1;
  double now = 0;
  std::vector<double> before;
};

/// Tests all series against `runs` of their last, or for a drift of their oldest runs; those that changed are appended.
void test_all(const std::vector<Series>& all, std::size_t runs, double least_percent, bool drift,
              std::int64_t since_utc_ns, std::vector<HistoryChange>& changes) {
  std::vector<Baseline> baselines;
  std::vector<double> variances;
  std::size_t usual_runs = kLeastRuns;
  for (const Series& series : all) {
    const std::span<const double> before(series.before);
    const std::size_t count = std::min(runs, before.size());
    std::vector<double> levels;
    for (const double value : drift ? before.first(count) : before.last(count)) {
      levels.push_back(activity_of(value, series.floor));
    }
    baselines.push_back(baseline_of(levels));
    variances.push_back(baselines.back().variance);
    usual_runs = std::max(usual_runs, levels.size());
  }
  const VariancePrior prior = variance_prior(variances, static_cast<double>(usual_runs - 1), kLeastSpread);
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
    if (std::abs(change.percent) < least_percent || std::abs(difference) < all[i].floor) continue;
    const bool known = std::any_of(changes.begin(), changes.end(),
                                   [&](const HistoryChange& other) { return other.name == change.name; });
    if (known) continue;
    change.t = t[i];
    change.since_utc_ns = since_utc_ns;
    change.drift = drift;
    changes.push_back(std::move(change));
  }
}

void compare_channels(const RunRecord& run, const std::vector<const RunRecord*>& taught, HistoryComparison& history) {
  std::vector<Series> all;
  std::set<std::string> names;
  for (const RunChannel& channel : run.channels) names.insert(channel.name);
  for (const RunRecord* record : taught) {
    for (const RunChannel& channel : record->channels) names.insert(channel.name);
  }
  for (const std::string& name : names) {
    Series series;
    series.now = run.value_of(name);
    const RunChannel* any = run.find(name);
    for (const RunRecord* record : taught) {
      if (any == nullptr) any = record->find(name);
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
  history.channels = all.size();
  if (all.empty()) return;
  std::vector<HistoryChange> changes;
  test_all(all, kRecentRuns, kLeastPercent, false, taught.back()->begin_utc_ns, changes);
  if (taught.size() >= kRunsForDrift) {
    test_all(all, kOldestRuns, kDriftPercent, true, taught[kOldestRuns - 1]->begin_utc_ns, changes);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const HistoryChange& a, const HistoryChange& b) { return std::abs(a.t) > std::abs(b.t); });
  if (changes.size() > kMostChanges) {
    history.changes_left_out = changes.size() - kMostChanges;
    changes.resize(kMostChanges);
  }
  history.changes.insert(history.changes.end(), changes.begin(), changes.end());
}

/// True when the run took longer or shorter than these runs by more than they differ among themselves.
bool run_time_changed(const RunRecord& run, std::span<const RunRecord* const> taught, bool drift,
                      const AnalysisSettings& settings, HistoryComparison& history) {
  std::vector<double> levels;
  for (const RunRecord* record : taught) levels.push_back(std::log(std::max(record->seconds, 0.1)));
  const Baseline baseline = baseline_of(levels);
  const VariancePrior prior{kLeastSpread, kRunTimePriorDf};
  const double t = t_of(std::log(std::max(run.seconds, 0.1)), baseline, prior);
  const double expected = std::exp(baseline.median);
  const double percent = 100 * (run.seconds - expected) / expected;
  const double least = RuleInForce(drift ? "history.drift" : "history.slower", settings).threshold("min_percent");
  const double least_seconds = RuleInForce("history.slower", settings).threshold("min_seconds");
  if (std::abs(percent) < least || std::abs(run.seconds - expected) < least_seconds ||
      two_sided_p(t, static_cast<double>(baseline.runs - 1) + prior.df) > kRunTimeP) {
    return false;
  }
  HistoryChange change{
      .what = HistoryChange::What::run_time, .name = "run time", .unit = "s", .subsystem = Subsystem::process};
  change.observed = run.seconds;
  change.expected = four_digits(expected);
  change.percent = percent;
  change.t = t;
  change.since_utc_ns = taught.back()->begin_utc_ns;
  change.drift = drift;
  history.changes.push_back(std::move(change));
  return true;
}

void compare_run_time(const RunRecord& run, const std::vector<const RunRecord*>& taught,
                      const AnalysisSettings& settings, HistoryComparison& history) {
  const std::span<const RunRecord* const> all(taught);
  if (run_time_changed(run, all.last(std::min(all.size(), kRecentRuns)), false, settings, history)) return;
  if (all.size() >= kRunsForDrift) run_time_changed(run, all.first(kOldestRuns), true, settings, history);
}

void compare_facts(const RunRecord& run, const RunRecord& before, HistoryComparison& history) {
  std::map<std::string, std::pair<std::string, std::string>> values;  // before, now
  for (const auto& [key, value] : before.facts) values[key].first = value;
  for (const auto& [key, value] : run.facts) values[key].second = value;
  for (const auto& [key, both] : values) {
    if (both.first == both.second) continue;
    HistoryChange change{.what = HistoryChange::What::configuration, .name = key};
    change.before = both.first;
    change.now = both.second;
    change.since_utc_ns = before.begin_utc_ns;
    if (history.changes.size() >= 2 * kMostChanges) {
      ++history.changes_left_out;
    } else {
      history.changes.push_back(std::move(change));
    }
  }
}

std::string fact_words(const HistoryChange& change) {
  const auto word = [](const std::string& value) { return value.empty() ? std::string("not set") : value; };
  return fmt::format("{} is {}, was {}", change.name, word(change.now), word(change.before));
}

std::string sentence_of(const HistoryComparison& history) {
  std::size_t channels = 0;
  std::size_t facts = 0;
  std::string run_time;
  for (const HistoryChange& change : history.changes) {
    channels += change.what == HistoryChange::What::channel ? 1 : 0;
    facts += change.what == HistoryChange::What::configuration ? 1 : 0;
    if (change.what == HistoryChange::What::run_time) {
      run_time = fmt::format("{:.0f} % {} than usual ({})", std::abs(change.percent),
                             change.percent > 0 ? "longer" : "shorter", duration(change.expected.value_or(0)));
    }
  }
  std::string text;
  if (history.status == HistoryStatus::too_few_runs) {
    text = fmt::format(
        "{} of this name and shape, {} of them fit to teach; {} are needed before anything but "
        "configuration can be compared",
        counted(static_cast<double>(history.runs), "earlier run"), history.accepted, kLeastRuns);
  } else {
    text = fmt::format("compared with {} since {}: ", counted(static_cast<double>(history.accepted), "run"),
                       date_of(history.first_utc_ns));
    std::vector<std::string> parts;
    if (!run_time.empty()) parts.push_back(run_time);
    if (channels > 0) parts.push_back(fmt::format("{} of {} channels changed", channels, history.channels));
    if (parts.empty()) parts.emplace_back("no change");
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ", ") + parts[i];
  }
  if (facts > 0) {
    const auto first = std::find_if(history.changes.begin(), history.changes.end(), [](const HistoryChange& change) {
      return change.what == HistoryChange::What::configuration;
    });
    text += fmt::format("; new since the run of {}: {}", date_of(first->since_utc_ns), fact_words(*first));
    if (facts > 1) text += fmt::format(" and {} more", counted(static_cast<double>(facts - 1), "fact"));
  }
  return text;
}

}  // namespace

std::string_view name_of(HistoryStatus status) noexcept {
  return kStatuses[static_cast<std::size_t>(status)];
}
std::optional<HistoryStatus> history_status_of(std::string_view name) noexcept {
  return find_name<HistoryStatus>(kStatuses, name);
}
std::string_view name_of(HistoryChange::What what) noexcept {
  return kWhats[static_cast<std::size_t>(what)];
}
std::optional<HistoryChange::What> history_change_of(std::string_view name) noexcept {
  return find_name<HistoryChange::What>(kWhats, name);
}

HistoryComparison compare_runs(const RunRecord& run, std::vector<RunRecord> earlier, const AnalysisSettings& settings) {
  HistoryComparison history;
  history.reason.clear();
  history.key = run.key;
  history.enters_baseline = run.accepted;
  history.why_not = run.why_not;
  std::stable_sort(earlier.begin(), earlier.end(),
                   [](const RunRecord& a, const RunRecord& b) { return a.begin_utc_ns < b.begin_utc_ns; });
  std::vector<const RunRecord*> all;
  std::vector<const RunRecord*> taught;
  std::set<std::string> seen{run.run_id};
  for (const RunRecord& record : earlier) {
    // A report made again long after must not be held against runs that came later.
    if (record.key != run.key || record.begin_utc_ns >= run.begin_utc_ns || !seen.insert(record.run_id).second)
      continue;
    all.push_back(&record);
    if (record.accepted) taught.push_back(&record);
  }
  history.runs = all.size();
  history.accepted = taught.size();
  if (all.empty()) {
    history.reason = "no earlier run of this name and shape is known";
    return history;
  }
  if (taught.size() < kLeastRuns) {
    history.status = HistoryStatus::too_few_runs;
    history.reason = fmt::format("{} of {} earlier runs may teach what is normal; {} are needed", taught.size(),
                                 all.size(), kLeastRuns);
  } else {
    history.status = HistoryStatus::compared;
    compare_run_time(run, taught, settings, history);
    compare_channels(run, taught, history);
  }
  if (!taught.empty()) {
    history.first_utc_ns = taught.front()->begin_utc_ns;
    history.last_utc_ns = taught.back()->begin_utc_ns;
  }
  compare_facts(run, taught.empty() ? *all.back() : *taught.back(), history);
  history.sentence = sentence_of(history);
  return history;
}

std::vector<Finding> history_findings(const HistoryComparison& history, const std::vector<std::string>& nodes,
                                      TimeSpan job, const AnalysisSettings& settings) {
  constexpr std::size_t kMostEvidence = 6;
  if (history.status != HistoryStatus::compared) return {};
  const RuleInForce changed("history.changed", settings);
  const HistoryChange* slower = nullptr;
  std::vector<const HistoryChange*> channels;
  std::string configuration;
  for (const HistoryChange& change : history.changes) {
    if (change.what == HistoryChange::What::run_time && change.percent > 0) slower = &change;
    if (change.what == HistoryChange::What::channel && std::abs(change.percent) >= changed.threshold("min_percent")) {
      channels.push_back(&change);
    }
    if (change.what == HistoryChange::What::configuration && configuration.size() < 200) {
      configuration += (configuration.empty() ? "" : "; ") + fact_words(change);
    }
  }
  // A run that does other work in the same time is news only when much of it changed, and enough runs say so.
  if (slower == nullptr && (static_cast<double>(channels.size()) < changed.threshold("min_channels") ||
                            static_cast<double>(history.accepted) < changed.threshold("min_runs"))) {
    return {};
  }
  const RuleInForce rule(slower == nullptr ? "history.changed"
                         : slower->drift   ? "history.drift"
                                           : "history.slower",
                         settings);
  if (!rule.enabled()) return {};

  Finding finding = rule.finding(nodes);
  finding.intervals = {job};
  finding.confidence = history.accepted >= kRunsToBeSure && slower != nullptr && !slower->drift ? Confidence::likely
                                                                                                : Confidence::possible;
  const auto fact = [&](const HistoryChange& change) {
    Evidence evidence;
    evidence.metric = change.what == HistoryChange::What::run_time ? "job.run_time" : change.name;
    evidence.feature = change.drift ? "against the oldest runs" : "against the median of earlier runs";
    evidence.observed = change.observed;
    evidence.expected = change.expected;
    evidence.unit = change.unit;
    evidence.span = job;
    evidence.detectors = {"HISTORY"};
    evidence.score = std::clamp(change.t, -999.0, 999.0);
    finding.evidence.push_back(std::move(evidence));
  };
  if (slower != nullptr) {
    const double lost = *slower->observed - *slower->expected;
    finding.subsystem = channels.empty() ? Subsystem::process : channels.front()->subsystem;
    const bool material = !slower->drift && slower->percent >= rule.threshold("warning_percent") &&
                          lost >= rule.threshold("warning_seconds");
    finding.severity = material ? Severity::warning : Severity::notice;
    finding.sentence = fmt::format("The run took {}; {} of the same name and shape took {} on the median.",
                                   duration(*slower->observed),
                                   slower->drift ? "the first runs" : fmt::format("{} earlier runs", history.accepted),
                                   duration(*slower->expected));
    finding.impact = {lost, 100 * lost / *slower->observed, "difference to the median of earlier runs"};
    fact(*slower);
  } else {
    finding.subsystem = channels.front()->subsystem;
    finding.severity = Severity::info;
    finding.sentence = fmt::format("{} changed by at least {:.0f} % against {} earlier runs, the run time did not.",
                                   counted(static_cast<double>(channels.size()), "channel"),
                                   rule.threshold("min_percent"), history.accepted);
    finding.impact.how = "the run did not take longer";
  }
  std::string list;
  for (const HistoryChange* change : channels) {
    if (finding.evidence.size() >= kMostEvidence) break;
    fact(*change);
    list += fmt::format("{}{} {} instead of {}", list.empty() ? "" : ", ", change->name,
                        quantity(change->observed, change->unit), quantity(change->expected, change->unit));
  }
  if (!list.empty()) finding.sentence += " Most changed: " + list + ".";
  finding.sentence += configuration.empty()
                          ? " No configuration fact changed."
                          : fmt::format(" New since the run of {}: {}.", date_of(history.last_utc_ns), configuration);
  finding.runner_up = {"note.other_input", "another input or another version of the program changes a run as well"};
  return {finding};
}

}  // namespace reveal
