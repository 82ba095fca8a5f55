#include "postproc/report/verdict.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/wording.h"

namespace reveal {
namespace {

constexpr std::size_t kMostEvidence = 16;

int order_of(const Finding& finding) {
  const RuleSpec* spec = find_rule(finding.id);
  return spec == nullptr ? 500 : spec->order;  // a summary of a newer version may know more rules
}

bool worth_acting(const Finding& finding) {
  return finding.severity >= Severity::warning;
}

bool comes_first(const Finding& a, const Finding& b) {
  if (worth_acting(a) != worth_acting(b)) return worth_acting(a);
  if (order_of(a) != order_of(b)) return order_of(a) < order_of(b);
  if (a.impact.seconds.value_or(0) != b.impact.seconds.value_or(0)) {
    return a.impact.seconds.value_or(0) > b.impact.seconds.value_or(0);
  }
  return a.intervals.front().begin_utc_ns < b.intervals.front().begin_utc_ns;
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

void unite(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

/// Intervals of several nodes that overlap are one: the job is disturbed while any of its nodes is.
void unite(std::vector<TimeSpan>& spans) {
  std::sort(spans.begin(), spans.end(), [](TimeSpan a, TimeSpan b) { return a.begin_utc_ns < b.begin_utc_ns; });
  std::vector<TimeSpan> united;
  for (const TimeSpan& span : spans) {
    if (!united.empty() && span.begin_utc_ns <= united.back().end_utc_ns) {
      united.back().end_utc_ns = std::max(united.back().end_utc_ns, span.end_utc_ns);
    } else {
      united.push_back(span);
    }
  }
  spans = std::move(united);
}

Finding merged(std::vector<Finding> same) {
  std::sort(same.begin(), same.end(), comes_first);
  Finding whole = std::move(same.front());
  std::map<std::string, double> lost;  // per node
  std::map<std::string, double> percent;
  const auto account = [&](const Finding& finding) {
    if (finding.nodes.empty()) return;
    lost[finding.nodes.front()] += finding.impact.seconds.value_or(0);
    percent[finding.nodes.front()] += finding.impact.percent.value_or(0);
  };
  account(whole);
  for (std::size_t i = 1; i < same.size(); ++i) {
    account(same[i]);
    whole.severity = std::max(whole.severity, same[i].severity);
    append(whole.nodes, std::move(same[i].nodes));
    append(whole.instances, std::move(same[i].instances));
    append(whole.intervals, std::move(same[i].intervals));
    append(whole.evidence, std::move(same[i].evidence));
  }
  unite(whole.nodes);
  unite(whole.instances);
  unite(whole.intervals);
  if (same.size() > 1) {
    // Nodes of one job wait for each other: the slowest counts, not the sum.
    double most = 0;
    double most_percent = 0;
    for (const auto& [node, seconds] : lost) most = std::max(most, seconds);
    for (const auto& [node, share] : percent) most_percent = std::max(most_percent, share);
    if (whole.impact.seconds) whole.impact.seconds = most;
    if (whole.impact.percent) whole.impact.percent = most_percent;
    whole.sentence += fmt::format(
        " In all: {} on {}.", counted(static_cast<double>(whole.intervals.size()), "interval"), node_list(whole.nodes));
    if (lost.size() > 1 && whole.impact.seconds) whole.impact.how += "; of several nodes, the one that lost most";
  }
  if (whole.evidence.size() > kMostEvidence) whole.evidence.resize(kMostEvidence);
  std::string identity = whole.id;
  for (const std::string& node : whole.nodes) identity += "\n" + node;
  for (const std::string& instance : whole.instances) identity += "\n" + instance;
  whole.fingerprint = text_hash(identity);
  return whole;
}

std::string where_and_how_long(const Report& report) {
  const double seconds = static_cast<double>(report.job.end_utc_ns - report.job.begin_utc_ns) * 1e-9;
  return fmt::format("{} on {}", duration(seconds), counted(static_cast<double>(report.job.nodes.size()), "node"));
}

}  // namespace

std::vector<Finding> merge_findings(std::vector<Finding> findings) {
  std::map<std::string, std::vector<Finding>> by_rule;
  for (Finding& finding : findings) {
    if (finding.intervals.empty()) finding.intervals.emplace_back();
    by_rule[finding.id].push_back(std::move(finding));
  }
  std::vector<Finding> all;
  all.reserve(by_rule.size());
  for (auto& [id, same] : by_rule) all.push_back(merged(std::move(same)));
  std::sort(all.begin(), all.end(), comes_first);
  return all;
}

void judge(Report& report, const std::string& insufficient) {
  Verdict& verdict = report.verdict;
  const auto& findings = report.findings;
  const std::string span = where_and_how_long(report);
  if (!findings.empty() && worth_acting(findings.front())) {
    verdict.status = VerdictStatus::finding;
    verdict.primary = findings.front().id;
    verdict.sentence = findings.front().sentence;
  } else if (!insufficient.empty()) {
    verdict.status = VerdictStatus::insufficient_data;
    verdict.sentence = fmt::format("Too little data to judge {}: {}; configuration was checked{}.", span, insufficient,
                                   findings.empty() ? " and nothing was found" : "");
  } else if (std::any_of(findings.begin(), findings.end(),
                         [](const Finding& finding) { return finding.severity == Severity::notice; })) {
    verdict.status = VerdictStatus::notice;
    verdict.primary = findings.front().id;
    verdict.sentence =
        fmt::format("Nothing that must be acted on in {}; worth knowing: {}", span, findings.front().sentence);
  } else {
    verdict.status = VerdictStatus::healthy;
    verdict.sentence = fmt::format("Healthy: nothing worth acting on in {}.", span);
  }
}

}  // namespace reveal
