#include "postproc/compare/backtest.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/compare/backtest_fields.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::string_view kRuleStates[] = {"found", "not_found", "not_checked"};
constexpr std::string_view kOutcomes[] = {"appeared", "went", "changed", "same", "without", "not_checked"};
constexpr const char* kShownOutcomes[] = {"appeared", "disappeared", "changed", "same", "in neither", "not checked"};
constexpr std::size_t kOutcomeColumn = 13;

RuleResult result_of(const Report& report, const std::string& rule) {
  RuleResult result;
  std::set<std::string> nodes;
  for (const Finding& finding : report.findings) {
    if (finding.id != rule) continue;
    result.state = RuleState::found;
    result.severity = std::max(result.severity, finding.severity);
    ++result.findings;
    nodes.insert(finding.nodes.begin(), finding.nodes.end());
    if (finding.impact.seconds) result.seconds = result.seconds.value_or(0) + *finding.impact.seconds;
  }
  result.nodes = nodes.size();
  if (result.state == RuleState::found) return result;
  for (const NotChecked& one : report.not_checked) {
    // Both analyses read the same traces: the nodes where it was checked are the same.
    if (one.rule == rule && !one.checked_elsewhere)
      return {.state = RuleState::not_checked, .seconds = {}, .reason = one.reason};
  }
  return result;
}

std::vector<std::string> only_in(const Report& one, const Report& other, std::span<const std::string> rules) {
  std::set<std::string> ids;
  const auto has = [](const Report& report, const std::string& id) {
    return std::any_of(report.findings.begin(), report.findings.end(),
                       [&](const Finding& finding) { return finding.id == id; });
  };
  for (const Finding& finding : one.findings) {
    if (std::find(rules.begin(), rules.end(), finding.id) == rules.end() && !has(other, finding.id))
      ids.insert(finding.id);
  }
  return {ids.begin(), ids.end()};
}

/// A trace that was reduced after its analysis has only the result of that analysis left.
void need_full_traces(const std::filesystem::path& directory) {
  std::vector<UnreadFolder> unread;  // the report names them
  for (const ListedTrace& trace : list_traces(directory, &unread)) {
    const auto summary = summary_of(trace);
    if (summary && summary->downsampled) {
      throw Error(directory.string() + ": the trace of " + printable(summary->node, 60) +
                  " was reduced to one row a minute: other thresholds cannot be tried");
    }
  }
}

std::string result_words(const RuleResult& result) {
  if (result.state == RuleState::not_checked) return "not checked: " + printable(result.reason, 200);
  if (result.state == RuleState::not_found) return "not found";
  std::string words =
      fmt::format("{} on {}", name_of(result.severity), counted(static_cast<double>(result.nodes), "node"));
  if (result.seconds) words += ", " + duration(*result.seconds);
  return words;
}

std::string job_as_text(const BacktestedJob& job, const TextStyle& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text;
  for (const BacktestedRule& rule : job.rules) {
    const BacktestOutcome outcome = outcome_of(rule);
    const bool blind = rule.before.state == RuleState::not_checked && rule.after.state == RuleState::not_checked;
    if (outcome == BacktestOutcome::without || blind) continue;  // only in the totals
    std::string words = printable(job.directory, 200) + ": ";
    if (job.rules.size() > 1) words += printable(rule.rule, 60) + ": ";
    const std::string before = result_words(rule.before);
    const std::string after = result_words(rule.after);
    words += before == after ? before : before + " -> " + after;
    text += folded(kShownOutcomes[static_cast<std::size_t>(outcome)], words, kOutcomeColumn, width);
  }
  if (!job.appeared.empty()) {
    text += folded("", "other rules that appeared: " + printable(listed(job.appeared)), kOutcomeColumn, width);
  }
  if (!job.went.empty()) {
    text += folded("", "other rules that disappeared: " + printable(listed(job.went)), kOutcomeColumn, width);
  }
  return text;
}

std::string totals_as_text(const BacktestTotals& totals) {
  return fmt::format("{}: in {} of {} before, in {} after; {} appeared, {} disappeared, {} changed, {} same{}\n",
                     totals.rule, totals.before, counted(static_cast<double>(totals.jobs), "job"), totals.after,
                     totals.appeared, totals.went, totals.changed, totals.same,
                     totals.not_checked == 0 ? "" : fmt::format(", {} not checked", totals.not_checked));
}

}  // namespace

std::string_view name_of(RuleState state) noexcept {
  return kRuleStates[static_cast<std::size_t>(state)];
}

std::optional<RuleState> rule_state_of(std::string_view name) noexcept {
  return enumerator_of<RuleState>(kRuleStates, name);
}

std::string_view name_of(BacktestOutcome outcome) noexcept {
  return kOutcomes[static_cast<std::size_t>(outcome)];
}

BacktestOutcome outcome_of(const BacktestedRule& rule) noexcept {
  if (rule.before.state == RuleState::not_checked || rule.after.state == RuleState::not_checked)
    return BacktestOutcome::not_checked;
  const bool before = rule.before.state == RuleState::found;
  const bool after = rule.after.state == RuleState::found;
  if (before && after) return rule.before == rule.after ? BacktestOutcome::same : BacktestOutcome::changed;
  if (before) return BacktestOutcome::went;
  return after ? BacktestOutcome::appeared : BacktestOutcome::without;
}

BacktestedJob compare_findings(const Report& before, const Report& after, std::span<const std::string> rules) {
  BacktestedJob job;
  for (const std::string& rule : rules) job.rules.push_back({rule, result_of(before, rule), result_of(after, rule)});
  job.appeared = only_in(after, before, rules);
  job.went = only_in(before, after, rules);
  return job;
}

BacktestedJob backtest_job(const std::filesystem::path& directory, const AnalysisSettings& before,
                           const AnalysisSettings& after, std::span<const std::string> rules) {
  need_full_traces(directory);
  ReportOptions options;
  options.history = {.why_not = "thresholds are tried on this job alone"};
  options.publish = false;
  options.now_utc_ns = utc_now_ns();
  AnalysisSettings both[] = {before, after};
  for (AnalysisSettings& settings : both) settings.mutes.clear();  // a muted finding would look like none
  const std::vector<Report> reports = try_settings(directory, both, options);
  return compare_findings(reports.front(), reports.back(), rules);
}

std::string render_backtested(const BacktestedJob& job) {
  return json_text(JsonWriter::whole(job));
}

BacktestedJob parse_backtested(const std::string& text) {
  const Json json = parse_json(text, "a result");
  JsonReader reader(json, "a result");
  BacktestedJob job;
  fields(reader, job);
  return job;
}

std::vector<BacktestTotals> totals_of(std::span<const BacktestedJob> jobs, std::span<const std::string> rules) {
  std::vector<BacktestTotals> all;
  for (const std::string& id : rules) {
    BacktestTotals totals{.rule = id};
    for (const BacktestedJob& job : jobs) {
      for (const BacktestedRule& rule : job.rules) {
        if (rule.rule != id) continue;
        ++totals.jobs;
        totals.before += rule.before.state == RuleState::found ? 1 : 0;
        totals.after += rule.after.state == RuleState::found ? 1 : 0;
        std::size_t* const counts[] = {&totals.appeared, &totals.went,    &totals.changed,
                                       &totals.same,     &totals.without, &totals.not_checked};
        ++*counts[static_cast<std::size_t>(outcome_of(rule))];
      }
    }
    all.push_back(std::move(totals));
  }
  return all;
}

std::string backtest_as_text(const Backtest& backtest, const TextStyle& style) {
  std::string text;
  for (const BacktestChange& change : backtest.changes) {
    text += fmt::format("{}.{}: {} -> {}\n", change.rule, change.key, change.before, change.after);
  }
  std::string jobs;
  for (const BacktestedJob& job : backtest.jobs) jobs += job_as_text(job, style);
  if (!jobs.empty()) text += "\n" + jobs;
  text += "\n";
  for (const BacktestTotals& totals : backtest.totals) text += totals_as_text(totals);
  for (const BacktestedJob& job : backtest.jobs) {
    if (!job.failure.empty())
      text += folded("", "not analysed: " + printable(job.failure), 0, static_cast<std::size_t>(style.width));
  }
  return text;
}

std::string backtest_as_json(const Backtest& backtest) {
  return json_text(JsonWriter::whole(backtest), 2) + "\n";
}

}  // namespace reveal
