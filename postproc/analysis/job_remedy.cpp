#include "postproc/analysis/job_remedy.h"

#include <algorithm>

namespace reveal {

namespace {

JobValues values_of(const Finding& finding, const ReportJob& job) {
  JobValues values = finding.values;
  if (!job.id.empty()) values["job"] = job.id;
  if (!job.command.empty()) values["command"] = job.command;
  std::string nodes;
  for (const std::string& node : finding.nodes) nodes += (nodes.empty() ? "" : ",") + node;
  if (!nodes.empty()) values["nodes"] = nodes;
  if (!finding.nodes.empty()) values["node"] = finding.nodes.front();
  const auto peer = std::find_if(job.nodes.begin(), job.nodes.end(), [&](const std::string& node) {
    return std::find(finding.nodes.begin(), finding.nodes.end(), node) == finding.nodes.end();
  });
  if (peer != job.nodes.end()) values["peer"] = *peer;
  return values;
}

}  // namespace

Remedy job_remedy(const RuleSpec& rule, const Finding& finding, const ReportJob& job) {
  return remedy_for(rule, values_of(finding, job));
}

namespace {

void name_all(std::span<const RemedyLine> table, const JobValues& values, std::vector<std::string>& lines) {
  constexpr std::string_view kNodes = "{nodes}";
  for (const RemedyLine& row : table) {
    const std::string_view begin = row.text.substr(0, row.text.find(kNodes));
    if (begin.size() == row.text.size() || begin.find('{') != std::string_view::npos) continue;
    const auto filled = lines_for({&row, 1}, values);
    const auto old =
        std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(begin); });
    if (!filled.empty() && old != lines.end()) *old = filled.front();
  }
}

}  // namespace

void leave_no_node_out(const ReportJob& job, Finding& finding) {
  const auto is_affected = [&](const std::string& node) {
    return std::find(finding.nodes.begin(), finding.nodes.end(), node) != finding.nodes.end();
  };
  if (job.nodes.size() < 2 || !std::all_of(job.nodes.begin(), job.nodes.end(), is_affected)) return;
  std::erase_if(finding.remedy.user,
                [](const std::string& line) { return line.find(" --exclude=") != std::string::npos; });
}

void name_all_nodes(const RuleSpec& rule, const ReportJob& job, Finding& finding) {
  const JobValues values = values_of(finding, job);
  name_all(rule.user_remedy, values, finding.remedy.user);
  name_all(rule.admin_remedy, values, finding.remedy.admin);
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
    remedy.verify = rule->verify;
    if (remedy.user.empty() && remedy.advice.empty() && remedy.admin.empty()) {
      remedy = job_remedy(*rule, finding, report.job);
    }
  }
}

}  // namespace reveal
