// The checks of `reveal check` on a node without a watched job: the rules that need none, and their result.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// The exit status, numbered as in monitoring systems.
enum class NodeStatus : std::uint8_t { ok, warning, critical, unknown };
[[nodiscard]] std::string_view name_of(NodeStatus) noexcept;

struct NodeCheck {
  std::string node;
  std::int64_t utc_ns = 0;
  std::vector<std::string> asked;  // ids of the rules that could answer, in attribution order
  std::vector<Finding> findings;
  std::vector<NotChecked> not_checked;  // the others
};

/// Once all rules were asked: muted findings become lines of not_checked, and the most severe one comes first.
void finish_check(NodeCheck& check, const AnalysisSettings& settings);

[[nodiscard]] NodeCheck check_node(const RuleContext::Node& node, const AnalysisSettings& settings);

/// Returns the status for one finding: a notice is worth a look of an administrator.
[[nodiscard]] NodeStatus status_of(const Finding& finding) noexcept;
/// Returns the status of the worst finding; unknown if no rule could answer.
[[nodiscard]] NodeStatus status_of(const NodeCheck& check) noexcept;

}  // namespace reveal
