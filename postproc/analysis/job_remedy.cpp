#include "postproc/analysis/job_remedy.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

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
  for (Finding& finding : report.findings) {
    const RuleSpec* rule = find_rule(finding.id);
    if (rule == nullptr) continue;
    const JobValues values = job_values(finding, remedy_names(report.job));
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
