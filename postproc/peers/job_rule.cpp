#include "postproc/peers/job_rule.h"

#include <map>
#include <string>
#include <utility>

namespace reveal {
namespace {

/// By id: the order of registration is link order, and the report must not depend on it.
std::map<std::string, JobCheck, std::less<>>& job_checks() {
  static std::map<std::string, JobCheck, std::less<>> all;
  return all;
}

}  // namespace

RegisteredJobRule::RegisteredJobRule(JobCheck check, RuleSpec spec) {
  job_checks()[std::string(spec.id)] = check;
  RegisteredRule{std::move(spec)};
}

std::vector<Finding> run_job_rules(const JobRuleContext& context, const AnalysisSettings& settings) {
  std::vector<Finding> findings;
  for (const auto& [id, check] : job_checks()) {
    const EffectiveRule rule(id, settings);
    if (!rule.enabled()) continue;
    for (JobFinding& found : check(context, rule)) {
      found.finding.remedy =
          remedy_for(*find_rule(id), job_values(found.finding, context.names, std::move(found.values)));
      findings.push_back(std::move(found.finding));
    }
  }
  return findings;
}

}  // namespace reveal
