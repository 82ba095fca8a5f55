// Findings of the comparison with earlier runs: none for a run like the others.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/history/history.h"
#include "postproc/history/history_words.h"
#include "postproc/words/quantity.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kRunsToBeSure = 5;
constexpr std::size_t kMostEvidence = 6;
constexpr std::size_t kLongConfiguration = 200;

/// The number of runs in the median.
std::size_t compared_runs(const HistoryComparison& history) {
  return std::min(history.accepted, kRecentRuns);
}

/// The changes that a finding contains.
struct ReportedChanges {
  const HistoryChange* slower = nullptr;  // the run time, when it grew
  std::vector<const HistoryChange*> channels;
  std::string configuration;  // facts, the first few
};

ReportedChanges reported_changes(const HistoryComparison& history, double least_percent) {
  ReportedChanges reported;
  for (const HistoryChange& change : history.changes) {
    if (change.what == HistoryChange::What::run_time && change.percent > 0) reported.slower = &change;
    if (change.what == HistoryChange::What::channel && std::abs(change.percent) >= least_percent) {
      reported.channels.push_back(&change);
    }
    if (change.what == HistoryChange::What::configuration && reported.configuration.size() < kLongConfiguration) {
      reported.configuration += (reported.configuration.empty() ? "" : "; ") + fact_words(change);
    }
  }
  return reported;
}

Evidence evidence_of(const HistoryChange& change, TimeSpan job) {
  Evidence evidence;
  evidence.metric = change.what == HistoryChange::What::run_time ? "job.run_time" : change.name;
  evidence.feature = change.drift ? "against the oldest runs" : "against the median of earlier runs";
  evidence.observed = change.observed;
  evidence.expected = change.expected;
  evidence.unit = change.unit;
  evidence.span = job;
  evidence.detectors = {Method::run_history};
  evidence.score = shown_score(change.t);
  return evidence;
}

void describe_slower(const HistoryComparison& history, const HistoryChange& slower, const EffectiveRule& rule,
                     Finding& finding) {
  const double lost = *slower.observed - *slower.expected;
  const bool material =
      !slower.drift && slower.percent >= rule.threshold("warning_percent") && lost >= rule.threshold("warning_seconds");
  finding.severity = material ? Severity::warning : Severity::notice;
  if (history.accepted >= kRunsToBeSure && !slower.drift) finding.confidence = Confidence::likely;
  finding.sentence =
      fmt::format("The run took {}; the median of {} is {}.", duration(*slower.observed),
                  slower.drift ? "its first runs" : fmt::format("{} earlier runs", compared_runs(history)),
                  duration(*slower.expected));
  finding.impact = {
      lost, 100 * lost / *slower.observed,
      slower.drift ? "difference to the median of its first runs" : "difference to the median of earlier runs"};
}

void describe_changed(const HistoryComparison& history, std::size_t channels, const EffectiveRule& rule,
                      Finding& finding) {
  finding.severity = Severity::info;
  finding.sentence = fmt::format(
      "{} changed by at least {:.0f} % against {} earlier runs; the run did not take longer.",
      counted(static_cast<double>(channels), "channel"), rule.threshold("min_percent"), compared_runs(history));
  finding.impact.how = "none seen: the run did not take longer";
}

}  // namespace

std::vector<Finding> history_findings(const HistoryComparison& history, const std::vector<std::string>& nodes,
                                      TimeSpan job, const AnalysisSettings& settings) {
  if (history.status != HistoryStatus::compared) return {};
  const EffectiveRule changed("history.changed", settings);
  const ReportedChanges reported = reported_changes(history, changed.threshold("min_percent"));
  const HistoryChange* slower = reported.slower;
  // A run that does other work in the same time is news only when much of it changed, and enough runs confirm it.
  if (slower == nullptr && (static_cast<double>(reported.channels.size()) < changed.threshold("min_channels") ||
                            static_cast<double>(history.accepted) < changed.threshold("min_runs"))) {
    return {};
  }
  const EffectiveRule rule(slower == nullptr ? "history.changed"
                           : slower->drift   ? "history.drift"
                                             : "history.slower",
                           settings);
  if (!rule.enabled()) return {};

  Finding finding = rule.finding(nodes);
  finding.intervals = {job};
  finding.confidence = Confidence::possible;
  finding.subsystem = reported.channels.empty() ? Subsystem::process : reported.channels.front()->subsystem;
  if (slower != nullptr) {
    describe_slower(history, *slower, rule, finding);
    finding.evidence.push_back(evidence_of(*slower, job));
  } else {
    describe_changed(history, reported.channels.size(), rule, finding);
  }
  std::string list;
  for (const HistoryChange* change : reported.channels) {
    if (finding.evidence.size() >= kMostEvidence) break;
    finding.evidence.push_back(evidence_of(*change, job));
    list += fmt::format("{}{} {} instead of {}", list.empty() ? "" : ", ", change->name,
                        quantity(change->observed, change->unit), quantity(change->expected, change->unit));
  }
  if (!list.empty()) finding.sentence += " Most changed: " + list + ".";
  const std::string last = date_and_time(history.last_utc_ns);
  finding.sentence += reported.configuration.empty()
                          ? fmt::format(" No configuration fact changed since the run of {}.", last)
                          : fmt::format(" New since the run of {}: {}.", last, reported.configuration);
  finding.runner_up = {"", "another input or another version of the program also changes a run"};
  return {finding};
}

}  // namespace reveal
