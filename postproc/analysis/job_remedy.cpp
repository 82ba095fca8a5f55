#include "postproc/analysis/job_remedy.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"
#include "postproc/peers/hardware_kinds.h"

namespace reveal {
namespace {

/// The nodes of a job by their hardware and their work: a node of another model shows nothing about settings.
class LikeNodes {
 public:
  explicit LikeNodes(const Report& report) : nodes_(report.job.nodes) {
    for (const FactDifference& fact : report.comparison.facts) {
      if (!names_the_kind(fact.key)) continue;
      for (const std::string& node : fact.nodes) kinds_[node] += fact.key + "=" + fact.value + "\n";
    }
    for (std::size_t group = 0; group < report.comparison.groups.size(); ++group) {
      for (const std::string& node : report.comparison.groups[group].nodes) groups_[node] = group + 1;
    }
  }

  /// The first one that the finding is not about: of the same model and with the same work, else of the same model.
  [[nodiscard]] std::string_view peer_of(const Finding& finding) const {
    if (finding.nodes.empty()) return "";
    const std::string& node = finding.nodes.front();
    const std::set<std::string_view> affected(finding.nodes.begin(), finding.nodes.end());
    std::string_view same_model;
    for (const std::string& other : nodes_) {
      if (affected.contains(other) || kind_of(other) != kind_of(node)) continue;
      if (group_of(other) == group_of(node)) return other;
      if (same_model.empty()) same_model = other;
    }
    return same_model;
  }

 private:
  [[nodiscard]] std::string_view kind_of(const std::string& node) const {
    const auto known = kinds_.find(node);
    return known == kinds_.end() ? std::string_view() : known->second;
  }
  [[nodiscard]] std::size_t group_of(const std::string& node) const {
    const auto known = groups_.find(node);
    return known == groups_.end() ? 0 : known->second;
  }

  const std::vector<std::string>& nodes_;
  std::map<std::string, std::string, std::less<>> kinds_;   // models that are not the usual ones
  std::map<std::string, std::size_t, std::less<>> groups_;  // from 1 on
};

bool names_a_peer(const RuleSpec& rule) {
  const auto named = [](const RemedyLine& line) { return line.text.find("{peer}") != std::string_view::npos; };
  return std::any_of(rule.user_remedy.begin(), rule.user_remedy.end(), named) ||
         std::any_of(rule.admin_remedy.begin(), rule.admin_remedy.end(), named);
}

/// A finding of all nodes of a job of several is not mended by other nodes.
void leave_no_node_out(const ReportJob& job, Finding& finding) {
  const std::set<std::string_view> affected(finding.nodes.begin(), finding.nodes.end());
  const auto is_affected = [&](const std::string& node) { return affected.contains(node); };
  if (job.nodes.size() < 2 || !std::all_of(job.nodes.begin(), job.nodes.end(), is_affected)) return;
  std::erase_if(finding.remedy.user,
                [](const std::string& line) { return line.find(" --exclude=") != std::string::npos; });
}

}  // namespace

RemedyNames remedy_names(const ReportJob& job) {
  return {job.id, job.command, job.nodes};
}

void name_nodes_in_remedies(Report& report) {
  const LikeNodes nodes(report);
  for (Finding& finding : report.findings) {
    const RuleSpec* rule = find_rule(finding.id);
    if (rule == nullptr) continue;
    const std::string_view peer = names_a_peer(*rule) ? nodes.peer_of(finding) : "";
    JobValues more;
    if (!peer.empty()) more["peer"] = peer;
    const JobValues values = job_values(finding, remedy_names(report.job), std::move(more));
    fill_again(finding.remedy.user, rule->user_remedy, values);
    fill_again(finding.remedy.advice, rule->advice, values);
    fill_again(finding.remedy.admin, rule->admin_remedy, values);
    leave_no_node_out(report.job, finding);
  }
}

void take_texts_of_rules(Report& report) {
  for (Finding& finding : report.findings) {
    const RuleSpec* rule = find_rule(finding.id);
    finding.title =
        rule != nullptr ? std::string(rule->title) : "Unknown rule: this version of reveal does not have it";
    if (rule == nullptr) {
      finding.remedy = {};
      continue;
    }
    Remedy& remedy = finding.remedy;
    const auto keep = [](std::vector<std::string>& lines, std::span<const RemedyLine> table) {
      std::erase_if(lines, [&](const std::string& line) { return !is_one_of(line, table); });
    };
    keep(remedy.user, rule->user_remedy);
    keep(remedy.advice, rule->advice);
    keep(remedy.admin, rule->admin_remedy);
    remedy.verify = verify_words(*rule);
    if (remedy.user.empty() && remedy.advice.empty() && remedy.admin.empty()) {
      remedy = remedy_for(*rule, job_values(finding, remedy_names(report.job)));
    }
  }
}

}  // namespace reveal
