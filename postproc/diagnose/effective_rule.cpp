#include "postproc/diagnose/effective_rule.h"

#include <stdexcept>

namespace reveal {
namespace {

const RuleSpec& required(std::string_view id) {
  if (const RuleSpec* spec = find_rule(id)) return *spec;
  throw std::logic_error("no such rule: " + std::string(id));  // a finding without a row in the table
}

}  // namespace

EffectiveRule::EffectiveRule(std::string_view id, const AnalysisSettings& settings)
    : spec_(required(id)), setting_(settings.find(id)) {}

double EffectiveRule::threshold(std::string_view name) const {
  return threshold_of(spec_, setting_ == nullptr ? std::span<const RuleContext::Override>() : setting_->thresholds,
                      name);
}

Finding EffectiveRule::finding(std::vector<std::string> nodes) const {
  return finding_of(spec_, std::move(nodes));
}

}  // namespace reveal
