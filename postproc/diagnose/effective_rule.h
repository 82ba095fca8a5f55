// A rule with the settings of the site: for findings that no single node can make, such as a node against its peers or
// a run against earlier ones. They are rows of the rule table like all others, without a function for one node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

class EffectiveRule {
 public:
  /// `id` is a row of the table; it and `settings` outlive this.
  EffectiveRule(std::string_view id, const AnalysisSettings& settings);

  [[nodiscard]] bool enabled() const { return setting_ == nullptr || setting_->enabled; }
  [[nodiscard]] double threshold(std::string_view name) const;
  /// Returns a finding with the rule's texts filled in.
  [[nodiscard]] Finding finding(std::vector<std::string> nodes) const;

 private:
  const RuleSpec& spec_;
  const RuleSetting* setting_;
};

}  // namespace reveal
