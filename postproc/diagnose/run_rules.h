// One node's analysis, put to every rule.
#pragma once

#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// Runs all enabled rules in attribution order; those that could not be checked go to `not_checked`.
[[nodiscard]] std::vector<Finding> run_rules(const RuleContext::Node& node, const AnalysisSettings& settings,
                                             std::vector<NotChecked>& not_checked);

/// Runs one rule, unless it is switched off, and appends its findings, or why it could not be checked.
void run_rule(const RuleSpec& rule, const RuleContext::Node& node, const AnalysisSettings& settings,
              std::vector<Finding>& found, std::vector<NotChecked>& not_checked);

}  // namespace reveal
