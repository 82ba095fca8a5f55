#include "postproc/report/verdict.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/job_ending.h"
#include "postproc/report/wording.h"

namespace reveal {
namespace {

constexpr std::size_t kMostEvidence = 16;

bool worth_acting(const Finding& finding) {
  return finding.severity >= Severity::warning;
}

/// Whether it is a notice of what was so during all of the job: then no part of the run shows how the job is without
/// it.
bool is_standing(const Finding& finding, const TimeSpan& job) {
  constexpr double kAlmostAll = 0.9;
  return !worth_acting(finding) && job.begin_utc_ns < job.end_utc_ns && covers(finding, job, kAlmostAll);
}

/// The most expensive of those worth acting on comes first, then notices, then the rest; findings caused by others come
/// last. That a run took longer than others is the sum of all causes, and comes after them. Where no cost tells them
/// apart, a cause or a fact comes before a difference that nobody can explain, an event before a state in which the
/// whole job was, and the more certain one first.
auto priority_of(const Finding& finding, const TimeSpan& job) {
  const RuleSpec* spec = find_rule(finding.id);  // a summary of a newer version may have more rules
  const bool difference = spec != nullptr && spec->states == Stated::difference;
  const int order = spec == nullptr ? 500 : spec->order;
  const std::int64_t begin = finding.intervals.empty() ? 0 : finding.intervals.front().begin_utc_ns;
  return std::tuple(!finding.caused_by.empty(), !worth_acting(finding), finding.severity < Severity::notice,
                    finding.kind == FindingKind::history, -static_cast<int>(finding.severity),
                    -finding.impact.seconds.value_or(-1), difference, is_standing(finding, job),
                    -static_cast<int>(finding.confidence), order, begin);
}

/// Without the job's time, no finding is known to be a state.
void bring_into_order(std::vector<Finding>& findings, const TimeSpan& job = {}) {
  std::stable_sort(findings.begin(), findings.end(),
                   [&job](const Finding& a, const Finding& b) { return priority_of(a, job) < priority_of(b, job); });
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

void unite(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

/// " Also on n02 and n03."
std::string same_elsewhere(std::vector<std::string> nodes, const std::vector<std::string>& but) {
  std::erase_if(nodes, [&](const std::string& node) { return std::ranges::find(but, node) != but.end(); });
  return nodes.empty() ? "" : fmt::format(" Also on {}.", node_list(nodes));
}

/// Processes of other nodes have the same names.
void name_node(Finding& finding, const std::vector<std::string>& nodes) {
  for (std::string& sentence : finding.main_threads) {
    if (nodes.size() == 1) sentence = nodes.front() + ": " + sentence;
  }
}

Finding merged(std::vector<Finding> same) {
  bring_into_order(same);
  Finding whole = std::move(same.front());
  const std::vector<std::string> first = whole.nodes;
  const auto elsewhere = [&first](const Finding& one) { return one.nodes != first; };
  if (std::any_of(same.begin() + 1, same.end(), elsewhere)) {
    name_node(whole, first);
    for (std::size_t i = 1; i < same.size(); ++i) name_node(same[i], same[i].nodes);
  }
  std::map<std::string, double> lost;  // per node
  std::map<std::string, double> percent;
  const auto account = [&](const Finding& finding) {
    if (finding.nodes.empty()) return;
    lost[finding.nodes.front()] += finding.impact.seconds.value_or(0);
    percent[finding.nodes.front()] += finding.impact.percent.value_or(0);
  };
  account(whole);
  const bool bounded = std::any_of(same.begin(), same.end(), [](const Finding& one) { return one.impact.at_most; }) ||
                       whole.impact.at_most;
  for (std::size_t i = 1; i < same.size(); ++i) {
    account(same[i]);
    whole.severity = std::max(whole.severity, same[i].severity);
    append(whole.nodes, std::move(same[i].nodes));
    append(whole.instances, std::move(same[i].instances));
    append(whole.intervals, std::move(same[i].intervals));
    append(whole.evidence, std::move(same[i].evidence));
    append(whole.main_threads, std::move(same[i].main_threads));
    append(whole.interventions, std::move(same[i].interventions));
  }
  unite(whole.nodes);
  unite(whole.instances);
  whole.intervals = united(std::move(whole.intervals));  // the job is disturbed while any of its nodes is
  if (same.size() > 1) {
    // Nodes of one job wait for each other: the slowest counts, not the sum.
    double most = 0;
    double most_percent = 0;
    for (const auto& [node, seconds] : lost) most = std::max(most, seconds);
    for (const auto& [node, share] : percent) most_percent = std::max(most_percent, share);
    if (whole.impact.seconds) whole.impact.seconds = most;
    whole.impact.at_most = bounded;
    if (whole.impact.percent) whole.impact.percent = most_percent;
    whole.sentence +=
        whole.intervals.size() == 1
            ? same_elsewhere(whole.nodes, first)
            : fmt::format(" In total: {} on {}.", counted(static_cast<double>(whole.intervals.size()), "interval"),
                          node_list(whole.nodes));
    if (lost.size() > 1 && whole.impact.seconds) whole.impact.how += " (the node that lost most)";
  }
  if (whole.evidence.size() > kMostEvidence) whole.evidence.resize(kMostEvidence);
  if (whole.main_threads.size() > kMostEvidence) whole.main_threads.resize(kMostEvidence);
  if (whole.interventions.size() > kMostEvidence) whole.interventions.resize(kMostEvidence);
  std::string identity = whole.id;
  for (const std::string& node : whole.nodes) identity += "\n" + node;
  for (const std::string& instance : whole.instances) identity += "\n" + instance;
  whole.fingerprint = text_hash(identity);
  return whole;
}

std::string nodes_words(std::size_t count) {
  return counted(static_cast<double>(count), "node");
}

/// "120 s on 2 nodes", "120 s on 3 of 4 nodes"
std::string where_and_how_long(const Report& report, std::size_t judged) {
  const std::size_t all = report.job.nodes.size() + report.job.nodes_missing.size();
  const std::string nodes = judged < all ? fmt::format("{} of {}", judged, nodes_words(all)) : nodes_words(all);
  return fmt::format("{} on {}", duration(seconds_of(report.job)), nodes);
}

/// Why the job is not judged: the damaged parts, else the first node's reason.
std::string why_not_judged(const Report& report, const NotJudged& not_judged) {
  for (const UnjudgedNode& node : not_judged) {
    if (node.damaged.empty()) continue;
    const std::string whose = report.job.nodes.size() > 1 ? "of " + node.node + " " : "";
    return fmt::format("The run cannot be judged: the trace {}is damaged ({}).", whose, node.damaged);
  }
  return fmt::format("Too little was recorded to judge the run: {}.",
                     not_judged.empty() ? "there is no usable trace" : not_judged.front().too_little);
}

/// Names the nodes that the verdict does not cover: "; nothing is known of n04".
std::string not_known(const Report& report, const NotJudged& not_judged) {
  std::string text;
  if (!report.job.nodes_missing.empty()) {
    text += fmt::format("; there is no data of {}", node_list(report.job.nodes_missing));
  }
  std::vector<std::string> nodes;
  std::vector<std::string> damaged;
  for (const UnjudgedNode& node : not_judged) (node.damaged.empty() ? nodes : damaged).push_back(node.node);
  if (!nodes.empty() && nodes.size() < report.job.nodes.size()) {
    text += fmt::format("; too little was measured on {}", node_list(nodes));
  }
  if (!damaged.empty() && report.verdict.status != VerdictStatus::insufficient_data) {
    text += report.job.nodes.size() > 1 ? fmt::format("; part of the trace of {} is damaged", node_list(damaged))
                                        : "; part of the trace is damaged";
    text += " (see coverage)";
  } else if (text.empty() && report.partial && damaged.empty()) {
    text = "; part of the data is missing (see coverage)";
  }
  return text;
}

/// `text` ends in a full stop, which moves behind `more`.
std::string with(std::string text, const std::string& more) {
  if (more.empty()) return text;
  if (text.ends_with('.')) text.pop_back();
  return text + more + ".";
}

/// A notice costs nothing that was seen, or its cause is not certain.
std::string note_sentence(const Finding& finding) {
  const std::string cost = cost_words(finding.impact);
  if (!cost.empty() && is_only_possible(finding)) return told_with_cost(finding);
  if (!cost.empty()) return fmt::format("{} The job may have lost {}.", finding.sentence, cost);
  return told(finding) + (is_cost_unknown(finding.impact) ? " The cost is not known." : " No loss of time was seen.");
}

/// A forecast about a job that has ended well did not come true; except for its consequences.
void lower_forecasts(Report& report) {
  if (!has_ended_well(report.job)) return;
  for (Finding& finding : report.findings) {
    const RuleSpec* spec = find_rule(finding.id);
    if (spec == nullptr || !spec->forecast || !effects_of(finding, report.findings).empty()) continue;
    finding.severity = std::min(finding.severity, Severity::notice);
  }
}

}  // namespace

std::vector<Finding> merge_findings(std::vector<Finding> findings) {
  using Places = std::vector<std::string>;
  std::map<std::tuple<std::string, std::string, std::string, Places>, std::vector<Finding>> alike;
  for (Finding& finding : findings) {
    if (finding.intervals.empty()) finding.intervals.emplace_back();
    const RuleSpec* spec = find_rule(finding.id);
    Places places;
    if (spec != nullptr && spec->names_place) {
      places = finding.nodes;
      places.insert(places.end(), finding.instances.begin(), finding.instances.end());
    }
    std::tuple key(finding.id, finding.caused_by, finding.first_cause, std::move(places));
    alike[std::move(key)].push_back(std::move(finding));
  }
  std::vector<Finding> all;
  all.reserve(alike.size());
  for (auto& [key, same] : alike) all.push_back(merged(std::move(same)));
  bring_into_order(all);
  return all;
}

void judge(Report& report, const NotJudged& not_judged) {
  lower_forecasts(report);
  bring_into_order(report.findings, {report.job.begin_utc_ns, report.job.end_utc_ns});
  Verdict& verdict = report.verdict;
  verdict = {};
  verdict.job_failed = has_failed(report.job);
  const auto& findings = report.findings;
  const std::size_t judged = report.job.nodes.size() - std::min(report.job.nodes.size(), not_judged.size());
  const std::string span = where_and_how_long(report, judged);
  const bool damaged =
      std::any_of(not_judged.begin(), not_judged.end(), [](const UnjudgedNode& node) { return !node.damaged.empty(); });
  const bool one_node = report.job.nodes.size() + report.job.nodes_missing.size() == 1;
  std::string sentence;
  if (!findings.empty() && worth_acting(findings.front())) {
    verdict.status = VerdictStatus::finding;
    verdict.primary = findings.front().id;
    sentence = told_with_cost(findings.front());
  } else if (judged == 0 || damaged) {
    verdict.status = VerdictStatus::insufficient_data;
    sentence = why_not_judged(report, not_judged);
  } else if (!findings.empty() && findings.front().severity == Severity::notice) {
    verdict.status = VerdictStatus::notice;
    verdict.primary = findings.front().id;
    sentence = note_sentence(findings.front());
  } else {
    verdict.status = VerdictStatus::healthy;
    sentence = verdict.job_failed ? fmt::format("Nothing unusual was found on the {}; check the program's own output.",
                                                one_node ? "node" : "nodes")
                                  : fmt::format("No problem found in {}{}.", span,
                                                not_known(report, not_judged).empty() ? ": nothing to change" : "");
  }
  sentence = with(std::move(sentence), not_known(report, not_judged));
  const std::string failure = failure_sentence(report.job);
  verdict.sentence = failure.empty() ? sentence : failure + " " + sentence;
}

bool is_shown(const Finding& finding) noexcept {
  return finding.severity >= Severity::notice && finding.caused_by.empty();
}

std::vector<const Finding*> shown_findings(const Report& report) {
  std::vector<const Finding*> shown;
  for (const Finding& finding : report.findings) {
    if (is_shown(finding)) shown.push_back(&finding);
  }
  return shown;
}

std::string left_out_line(const Report& report) {
  const auto has_known_cause = [&report](const Finding& effect) {
    return std::any_of(report.findings.begin(), report.findings.end(), [&effect](const Finding& cause) {
      return cause.id == effect.first_cause && !cause.feedback.empty() && !is_shown(cause);
    });
  };
  std::size_t observations = 0;
  std::size_t effects = 0;
  std::size_t known = 0;
  for (const Finding& finding : report.findings) {
    if (is_shown(finding)) continue;
    const bool is_known = finding.caused_by.empty() ? !finding.feedback.empty() : has_known_cause(finding);
    std::size_t& count = is_known ? known : !finding.caused_by.empty() ? effects : observations;
    count += std::max<std::size_t>(1, finding.intervals.size());
  }
  std::vector<std::string> parts;
  if (observations > 0)
    parts.push_back(counted(static_cast<double>(observations), "observation") + " without visible cost");
  if (known > 0) parts.push_back(counted(static_cast<double>(known), "observation") + " that you called no problem");
  if (effects > 0) parts.push_back(counted(static_cast<double>(effects), "consequence") + " of the findings above");
  return joined(parts, "; ");
}

bool shows_intervals(const Report& report) noexcept {
  return report.verdict.status == VerdictStatus::finding || report.verdict.status == VerdictStatus::notice;
}

}  // namespace reveal
