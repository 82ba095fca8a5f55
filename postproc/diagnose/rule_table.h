// The output of `reveal rules`: the rule table itself, never retyped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// The part of a rule's id before the dot: "net" of "net.mtu_mismatch".
[[nodiscard]] std::string_view family_of(std::string_view id);
/// Every family, by name.
[[nodiscard]] std::vector<std::string> rule_families();

/// A line for each rule, by families and in a family in attribution order, in lines of at most `width`. `family`: only
/// its rules.
[[nodiscard]] std::string rules_as_text(const AnalysisSettings& settings, std::size_t width,
                                        std::string_view family = {});
[[nodiscard]] std::string rules_as_json(const AnalysisSettings& settings, std::string_view family = {});

/// All about one rule: its signal, thresholds with their keys, remedy, how it was proven.
[[nodiscard]] std::string rule_as_text(const RuleSpec& rule, const AnalysisSettings& settings, std::size_t width);
[[nodiscard]] std::string rule_as_json(const RuleSpec& rule, const AnalysisSettings& settings);

}  // namespace reveal
