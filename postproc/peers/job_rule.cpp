#include "postproc/peers/job_rule.h"

#include <iterator>
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
    std::vector<Finding> found = check(context, rule);
    std::move(found.begin(), found.end(), std::back_inserter(findings));
  }
  return findings;
}

}  // namespace reveal
