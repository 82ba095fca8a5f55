#include "postproc/diagnose/run_rules.h"

#include <algorithm>
#include <iterator>

#include "hdf5schema/basics/error.h"

namespace reveal {

void run_rule(const RuleSpec& rule, const RuleContext::Node& node, const AnalysisSettings& settings,
              std::vector<Finding>& found, std::vector<NotChecked>& not_checked) {
  const RuleSetting* setting = settings.find(rule.id);
  if (setting != nullptr && !setting->enabled) {
    not_checked.push_back({std::string(rule.id), "switched off in reveal.conf"});
    return;
  }
  if (rule.check == nullptr) return;  // not a question to one node
  const std::span<const RuleContext::Override> overrides =
      setting == nullptr ? std::span<const RuleContext::Override>() : setting->thresholds;
  try {
    const RuleContext context(rule, node, found, overrides);
    std::vector<Finding> spoken = rule.check(context);
    for (Finding& finding : spoken) {
      // "the job's process on n01 ...": a process without a name is often the subject.
      if (finding.sentence.starts_with("the ")) finding.sentence.front() = 'T';
    }
    std::move(spoken.begin(), spoken.end(), std::back_inserter(found));
  } catch (const Unavailable& missing) {
    not_checked.push_back({std::string(rule.id), missing.what()});
  }
}

std::vector<Finding> run_rules(const RuleContext::Node& node, const AnalysisSettings& settings,
                               std::vector<NotChecked>& not_checked) {
  std::vector<Finding> found;
  for (const RuleSpec* rule : rules()) run_rule(*rule, node, settings, found, not_checked);
  return found;
}

}  // namespace reveal
