// What `reveal rules` prints: the rule table as it is, never retyped.
#pragma once

#include <string>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// One block per rule in attribution order, with thresholds as the site has set them, in lines of at most `width`.
[[nodiscard]] std::string rules_as_text(const AnalysisSettings& settings, std::size_t width);
[[nodiscard]] std::string rules_as_json(const AnalysisSettings& settings);

/// All about one rule: what it looks for, thresholds with their keys, remedy, how it was proven.
[[nodiscard]] std::string rule_as_text(const RuleSpec& rule, const AnalysisSettings& settings, std::size_t width);
[[nodiscard]] std::string rule_as_json(const RuleSpec& rule, const AnalysisSettings& settings);

}  // namespace reveal
