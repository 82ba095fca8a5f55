#include "postproc/peers/job_rule.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace reveal {
namespace {

struct JobRule {
  JobCheck check = nullptr;
  JobRuleOf of = JobRuleOf::measurements;
};

/// By id: the order of registration is link order, and the report must not depend on it.
std::map<std::string, JobRule, std::less<>>& job_rules() {
  static std::map<std::string, JobRule, std::less<>> all;
  return all;
}

void run_one(const std::string& id, JobCheck check, const JobRuleContext& context, const EffectiveRule& rule,
             std::vector<Finding>& findings) {
  for (JobFinding& found : check(context, rule)) {
    found.finding.remedy =
        remedy_for(*find_rule(id), job_values(found.finding, context.names, std::move(found.values)));
    findings.push_back(std::move(found.finding));
  }
}

}  // namespace

RegisteredJobRule::RegisteredJobRule(JobCheck check, RuleSpec spec, JobRuleOf of) {
  job_rules()[std::string(spec.id)] = {check, of};
  RegisteredRule{std::move(spec)};
}

std::vector<Finding> run_job_rules(const JobRuleContext& context, const AnalysisSettings& settings) {
  std::vector<Finding> findings;
  for (const auto& [id, registered] : job_rules()) {
    const EffectiveRule rule(id, settings);
    if (rule.enabled()) run_one(id, registered.check, context, rule, findings);
  }
  return findings;
}

std::vector<Finding> run_job_rule(std::string_view id, const JobRuleContext& context,
                                  const AnalysisSettings& settings) {
  std::vector<Finding> findings;
  const auto registered = job_rules().find(id);
  const EffectiveRule rule(id, settings);
  if (registered != job_rules().end() && rule.enabled()) {
    run_one(registered->first, registered->second.check, context, rule, findings);
  }
  return findings;
}

NodeCheck check_settings(const std::vector<const NodeProfile*>& nodes, const AnalysisSettings& settings) {
  NodeCheck check;
  check.node = "job";
  if (nodes.empty()) return check;
  TimeSpan job{nodes.front()->begin_utc_ns, nodes.front()->end_utc_ns};
  std::vector<std::string> names;
  names.reserve(nodes.size());
  for (const NodeProfile* node : nodes) {
    job = {std::min(job.begin_utc_ns, node->begin_utc_ns), std::max(job.end_utc_ns, node->end_utc_ns)};
    names.push_back(node->node);
  }
  check.utc_ns = job.begin_utc_ns;
  PeerComparison comparison;
  comparison.facts = fact_differences(nodes);
  const JobRuleContext context{.comparison = comparison, .nodes = nodes, .job = job, .names = {.nodes = names}};
  for (const auto& [id, registered] : job_rules()) {
    if (registered.of != JobRuleOf::settings) continue;
    const EffectiveRule rule(id, settings);
    if (!rule.enabled()) {
      check.not_checked.push_back({id, "switched off in reveal.conf"});
      continue;
    }
    check.asked.push_back(id);
    run_one(id, registered.check, context, rule, check.findings);
  }
  finish_check(check, settings);
  return check;
}

}  // namespace reveal
