#include "postproc/diagnose/mute.h"

#include <fnmatch.h>

#include <algorithm>

#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

bool matches(const std::string& pattern, std::string_view name) {
  return ::fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
}

bool names_a_rule(const std::string& pattern) {
  return std::ranges::any_of(rules(), [&](const RuleSpec* rule) {
    return matches(pattern, rule->id) || (!rule->former_id.empty() && matches(pattern, rule->former_id));
  });
}

std::string mistake_in_mute(const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const Mute mute = parse_mute(value);
    if (mute.node.empty()) return "\"" + value + "\" names no node; write RULE@NODE, or RULE for all nodes";
    if (!names_a_rule(mute.rule)) return "\"" + value + "\" names no rule; see reveal rules";
  }
  return "";
}
const RegisteredConfigCheck kMuteCheck{config_key("report", "mute"), mistake_in_mute};

}  // namespace

const Mute* mute_of(const AnalysisSettings& settings, std::string_view rule, std::string_view node) {
  const RuleSpec* spec = find_rule(rule);
  for (const Mute& mute : settings.mutes) {
    const bool former = spec != nullptr && !spec->former_id.empty() && matches(mute.rule, spec->former_id);
    if ((matches(mute.rule, rule) || former) && matches(mute.node, node)) return &mute;
  }
  return nullptr;
}

std::vector<MutedFinding> take_muted(std::vector<Finding>& findings, const AnalysisSettings& settings) {
  std::vector<MutedFinding> muted;
  if (settings.mutes.empty()) return muted;
  std::erase_if(findings, [&](const Finding& finding) {
    const Mute* row = nullptr;
    for (const std::string& node : finding.nodes) {
      row = mute_of(settings, finding.id, node);
      if (row == nullptr) return false;
    }
    if (row == nullptr) return false;
    std::string reason = row->text;
    if (!row->place.empty()) reason += " in " + row->place;
    const auto same = std::ranges::find_if(muted, [&](const MutedFinding& known) {
      return known.id == finding.id && known.nodes == finding.nodes && known.reason == reason;
    });
    if (same != muted.end()) {  // another interval
      same->severity = std::max(same->severity, finding.severity);
    } else {
      muted.push_back({finding.id, finding.title, finding.severity, finding.nodes, std::move(reason)});
    }
    return true;
  });
  return muted;
}

}  // namespace reveal
