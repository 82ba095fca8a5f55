// One node's analysis, put to every rule.
#pragma once

#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// Asks all enabled rules in attribution order; those that could not speak go to `not_checked`.
[[nodiscard]] std::vector<Finding> run_rules(const RuleContext::Node& node, const AnalysisSettings& settings,
                                             std::vector<NotChecked>& not_checked);

/// Asks one rule, unless it is switched off, and appends what it found, or why it could not speak.
void ask_rule(const RuleSpec& rule, const RuleContext::Node& node, const AnalysisSettings& settings,
              std::vector<Finding>& found, std::vector<NotChecked>& not_checked);

}  // namespace reveal
