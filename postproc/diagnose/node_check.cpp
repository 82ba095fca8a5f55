#include "postproc/diagnose/node_check.h"

#include <algorithm>

#include "postproc/diagnose/mute.h"
#include "postproc/diagnose/run_rules.h"

namespace reveal {

std::string_view name_of(NodeStatus status) noexcept {
  constexpr std::string_view kNames[] = {"ok", "warning", "critical", "unknown"};
  return kNames[static_cast<std::size_t>(status)];
}

void finish_check(NodeCheck& check, const AnalysisSettings& settings) {
  for (const MutedFinding& muted : take_muted(check.findings, settings)) {
    check.not_checked.push_back({muted.id, "it found something, but is muted: " + muted.reason});
  }
  std::stable_sort(check.findings.begin(), check.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
}

NodeCheck check_node(const RuleContext::Node& node, const AnalysisSettings& settings) {
  NodeCheck check;
  check.node = node.telemetry.node;
  check.utc_ns = node.telemetry.begin_utc_ns;
  for (const RuleSpec* rule : rules()) {
    if (!rule->checks_node) continue;
    const std::size_t silent = check.not_checked.size();
    run_rule(*rule, node, settings, check.findings, check.not_checked);
    if (check.not_checked.size() == silent) check.asked.emplace_back(rule->id);
  }
  finish_check(check, settings);
  return check;
}

NodeStatus status_of(const Finding& finding) noexcept {
  switch (finding.severity) {
    case Severity::info:
      return NodeStatus::ok;
    case Severity::notice:
    case Severity::warning:
      return NodeStatus::warning;
    case Severity::critical:
      return NodeStatus::critical;
  }
  return NodeStatus::unknown;
}

NodeStatus status_of(const NodeCheck& check) noexcept {
  if (check.asked.empty()) return NodeStatus::unknown;
  NodeStatus worst = NodeStatus::ok;
  for (const Finding& finding : check.findings) worst = std::max(worst, status_of(finding));
  return worst;
}

}  // namespace reveal
