#include "postproc/ledger/node_ranking.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "hdf5schema/basics/fold.h"
#include "postproc/diagnose/rule.h"
#include "postproc/ledger/ledger_fields.h"
#include "postproc/ledger/node_causes.h"
#include "postproc/words/ink.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr std::size_t kRuleColumn = 11;
constexpr std::size_t kMostUnreadShown = 5;

/// Different jobs of different users: an array job is one, whatever its number of tasks.
using JobSet = std::set<std::pair<std::string, std::string>>;

std::pair<std::string, std::string> job_of_line(const LedgerLine& line) {
  return {line.owner, line.array.empty() ? line.job : line.array};
}

std::size_t users_of(const JobSet& jobs) {
  std::set<std::string> users;
  for (const auto& [owner, job] : jobs) users.insert(owner);
  return users.size();
}

struct RuleSums {
  Severity severity = Severity::info;
  std::optional<Confidence> confidence;
  JobSet jobs, serious_jobs;  // jobs; those with at least a warning
  LostHours cost;
  std::int64_t last_utc_ns = 0;
};

struct NodeSums {
  JobSet jobs, jobs_with_findings;
  LostHours cost;
  std::int64_t last_utc_ns = 0;
  std::map<std::string, RuleSums> rules;
};

bool concerns_node(const RuleSpec& rule, const LedgerLine& line, const LedgerFinding& finding) {
  if (is_hardware_rule(rule)) return true;
  const Blame blame = blame_of(rule.id);
  return finding.nodes < line.job_nodes ? blame != Blame::job : line.job_nodes == 1 && blame == Blame::node;
}

/// All nodes of the job waited; the nodes that the finding names share that.
std::optional<double> hours_lost(const LedgerLine& line, const LedgerFinding& finding) {
  if (!finding.seconds) return std::nullopt;
  return *finding.seconds * static_cast<double>(line.job_nodes) / static_cast<double>(finding.nodes) / kSecondsPerHour;
}

void add_cost(std::optional<double> hours, bool at_most, LostHours& cost) {
  if (!hours) return;
  cost.hours = cost.hours.value_or(0) + *hours;
  cost.at_most = cost.at_most || at_most;
}

void add_line(const LedgerLine& line, NodeSums& node, std::size_t& whole_jobs) {
  node.jobs.insert(job_of_line(line));
  std::optional<double> hours;
  bool at_most = false;
  for (const LedgerFinding& finding : line.findings) {
    const RuleSpec* spec = find_rule(finding.rule);
    if (spec == nullptr || finding.severity == Severity::info) continue;
    if (!concerns_node(*spec, line, finding)) {
      ++whole_jobs;
      continue;
    }
    RuleSums& rule = node.rules[finding.rule];
    rule.severity = std::max(rule.severity, finding.severity);
    rule.confidence = std::max(rule.confidence, finding.confidence);
    rule.jobs.insert(job_of_line(line));
    if (finding.severity >= Severity::warning) rule.serious_jobs.insert(job_of_line(line));
    rule.last_utc_ns = std::max(rule.last_utc_ns, line.end_utc_ns);
    node.jobs_with_findings.insert(job_of_line(line));
    node.last_utc_ns = std::max(node.last_utc_ns, line.end_utc_ns);
    const auto lost = hours_lost(line, finding);
    add_cost(lost, finding.how == LossKnown::at_most, rule.cost);
    if (lost) hours = hours.value_or(0) + *lost;
    at_most = at_most || (lost && finding.how == LossKnown::at_most);
  }
  // Findings of one job may count the same seconds twice: it cannot have lost more than it had.
  const double had = line.seconds() * static_cast<double>(line.job_nodes) / kSecondsPerHour;
  if (hours) add_cost(std::min(*hours, had), at_most, node.cost);
}

/// Reports are written as the job's user, who could write anything: jobs of one user are one voice.
void suggest(const std::string& name, const NodeSums& sums, const RankingOptions& options, NodeRecord& node) {
  for (const NodeRule& rule : node.rules) {
    if (!rule.hardware) continue;
    const JobSet& jobs = sums.rules.at(rule.rule).serious_jobs;
    if (jobs.size() < options.agree) continue;
    const std::size_t users = users_of(jobs);
    if (users < 2 && jobs.begin()->first != options.own) {
      node.why_no_suggestion =
          fmt::format("{}: all {} jobs belong to one user; check the node before you drain it", rule.rule, jobs.size());
      continue;
    }
    node.suggestion = fmt::format("scontrol update nodename={} state=drain reason=\"reveal: {} in {} jobs of {}\"",
                                  name, rule.rule, jobs.size(), counted(static_cast<double>(users), "user"));
    node.why_no_suggestion.clear();
    return;
  }
}

void round_hours(LostHours& cost) {
  if (cost.hours) cost.hours = four_digits(*cost.hours);
}

NodeRecord node_record(const std::string& name, const NodeSums& sums, const RankingOptions& options) {
  NodeRecord node{.node = name,
                  .jobs = sums.jobs.size(),
                  .jobs_with_findings = sums.jobs_with_findings.size(),
                  .cost = sums.cost,
                  .last_utc_ns = sums.last_utc_ns,
                  .rules = {},
                  .suggestion = {},
                  .why_no_suggestion = {}};
  for (const auto& [id, rule] : sums.rules) {
    const RuleSpec* spec = find_rule(id);
    node.rules.push_back({.rule = id,
                          .title = std::string(spec->title),
                          .severity = rule.severity,
                          .hardware = is_hardware_rule(*spec),
                          .jobs = rule.jobs.size(),
                          .users = users_of(rule.jobs),
                          .cost = rule.cost,
                          .last_utc_ns = rule.last_utc_ns,
                          .confidence = rule.confidence});
  }
  std::stable_sort(node.rules.begin(), node.rules.end(), [](const NodeRule& one, const NodeRule& other) {
    if (one.jobs != other.jobs) return one.jobs > other.jobs;
    return one.cost.hours.value_or(0) > other.cost.hours.value_or(0);
  });
  for (NodeRule& rule : node.rules) round_hours(rule.cost);
  round_hours(node.cost);
  suggest(name, sums, options, node);
  return node;
}

std::string cost_words(const LostHours& cost) {
  if (!cost.hours) return "cost not known";
  return fmt::format("{}{} node-hours lost", cost.at_most ? "at most " : "", number(*cost.hours));
}

std::string ranking_heading(const NodeRanking& ranking) {
  if (ranking.jobs == 0) return "no job was read\n";
  return fmt::format("{} on {}, {} to {}\n", counted(static_cast<double>(ranking.jobs), "job"),
                     counted(static_cast<double>(ranking.nodes_seen), "node"), date_and_time(ranking.begin_utc_ns),
                     date_and_time(ranking.end_utc_ns));
}

std::string node_as_text(const NodeRecord& node, const TextStyle& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = fmt::format("{}  {} of {}, {}, last {}\n", painted(node.node, Ink::bold, style.colour),
                                 node.jobs_with_findings, counted(static_cast<double>(node.jobs), "job"),
                                 cost_words(node.cost), date_and_time(node.last_utc_ns));
  for (const NodeRule& rule : node.rules) {
    const std::string jobs = counted(static_cast<double>(rule.jobs), "job");
    const std::string of_users = rule.users < 2 ? "" : fmt::format(" of {} users", rule.users);
    text += folded("  " + jobs,
                   fmt::format("{}{}: {}; {}{}", rule.rule, of_users, rule.title, cost_words(rule.cost),
                               certainty_behind(rule.rule, rule.confidence)),
                   kRuleColumn, width);
  }
  if (!node.suggestion.empty()) text += "  " + painted(node.suggestion, Ink::red, style.colour) + "\n";
  if (!node.why_no_suggestion.empty()) text += folded("  not drained", node.why_no_suggestion, kRuleColumn + 3, width);
  return text;
}

/// Most nodes have a finding in one job once: their names are enough, unless hardware is at fault.
bool is_seldom(const NodeRecord& node, const NodeRanking& ranking) {
  return ranking.jobs > 1 && node.jobs_with_findings == 1 &&
         std::none_of(node.rules.begin(), node.rules.end(), [](const NodeRule& rule) { return rule.hardware; });
}

}  // namespace

bool is_hardware_rule(const RuleSpec& rule) {
  return std::any_of(rule.admin_remedy.begin(), rule.admin_remedy.end(),
                     [](const RemedyLine& line) { return line.text.find("state=drain") != std::string_view::npos; });
}

NodeRanking rank_nodes(std::span<const LedgerLine> lines, const RankingOptions& options) {
  NodeRanking ranking{.agree = options.agree};
  std::map<std::string, NodeSums> nodes;
  JobSet jobs;
  for (const LedgerLine& line : lines) {
    add_line(line, nodes[line.node], ranking.whole_jobs);
    jobs.insert(job_of_line(line));
    if (ranking.begin_utc_ns == 0 || line.begin_utc_ns < ranking.begin_utc_ns) ranking.begin_utc_ns = line.begin_utc_ns;
    ranking.end_utc_ns = std::max(ranking.end_utc_ns, line.end_utc_ns);
  }
  ranking.jobs = jobs.size();
  ranking.nodes_seen = nodes.size();
  for (const auto& [name, sums] : nodes) {
    if (!sums.jobs_with_findings.empty()) ranking.nodes.push_back(node_record(name, sums, options));
  }
  std::stable_sort(ranking.nodes.begin(), ranking.nodes.end(), [](const NodeRecord& one, const NodeRecord& other) {
    if (one.suggestion.empty() != other.suggestion.empty()) return other.suggestion.empty();
    if (one.jobs_with_findings != other.jobs_with_findings) return one.jobs_with_findings > other.jobs_with_findings;
    return one.cost.hours.value_or(0) > other.cost.hours.value_or(0);
  });
  return ranking;
}

std::string ranking_as_text(const NodeRanking& ranking, std::size_t limit, const TextStyle& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = ranking_heading(ranking);
  if (ranking.jobs > 0 && ranking.nodes.empty()) text += "no node has findings of its own\n";
  std::vector<std::string> seldom;
  std::size_t shown = 0;
  std::size_t often = 0;
  for (const NodeRecord& node : ranking.nodes) {
    if (is_seldom(node, ranking)) {
      seldom.push_back(node.node);
    } else if (++often <= limit) {
      text += "\n" + node_as_text(node, style);
      ++shown;
    }
  }
  std::string notes;
  if (often > shown) {
    notes += folded(
        "", fmt::format("{} not shown: --limit {}", counted(static_cast<double>(often - shown), "more node"), often), 0,
        width);
  }
  if (!seldom.empty()) notes += folded("in one job:", node_list(seldom), 12, width);
  if (ranking.whole_jobs > 0) {
    notes += folded("",
                    fmt::format("{} named all nodes of a job or its own programs, and are not counted for a node",
                                counted(static_cast<double>(ranking.whole_jobs), "finding")),
                    0, width);
  }
  if (ranking.lines_refused > 0) {
    notes += folded(
        "", fmt::format("{} of the ledger cannot be read", counted(static_cast<double>(ranking.lines_refused), "line")),
        0, width);
  }
  for (std::size_t i = 0; i < std::min(kMostUnreadShown, ranking.unread.size()); ++i) {
    notes += folded("", "not read: " + printable(ranking.unread[i].reason), 0, width);
  }
  if (ranking.unread.size() > kMostUnreadShown) {
    notes +=
        fmt::format("not read: {} more directories; --json lists them\n", ranking.unread.size() - kMostUnreadShown);
  }
  return notes.empty() ? text : text + "\n" + notes;
}

std::string ranking_as_json(const NodeRanking& ranking) {
  return json_text(JsonWriter::whole(ranking), 2) + "\n";
}

}  // namespace reveal
