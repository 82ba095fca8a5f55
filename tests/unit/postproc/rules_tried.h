// The tests that made a rule report something, and those that did not: REVEAL_RULES_TRIED names the file that gets
// one line for each, "cpu.steal reported RuleSteal.SaysHowMuchTheHypervisorTook". tests/rules_tried_test.sh reads it.
// Rules that look at one node are noted wherever a test runs at most three of them; findings of peers and of history go
// through tried().
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/diagnose/finding.h"

namespace reveal {

/// Returns the findings; those of these rules that have none were silent if nothing at all was reported.
[[nodiscard]] std::vector<Finding> tried(std::span<const std::string_view> rules, std::vector<Finding> findings);

inline constexpr std::array<std::string_view, 5> kJobRules = {
    "node.straggler", "node.differs", "mem.hugepages_inconsistent", "net.mtu_mismatch", "node.config_drift"};
inline constexpr std::array<std::string_view, 3> kHistoryRules = {"history.slower", "history.drift", "history.changed"};

}  // namespace reveal
