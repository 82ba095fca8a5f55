// Cpu time that others took on the cpus of the job: place, duration, cost for the job, and the processes that took it.
// One disturbance is one finding, of the rule for the kind that took most of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "postproc/diagnose/interval_finding.h"

namespace reveal {

/// Kinds of outsiders, which the collector distinguishes by control group.
enum class Outsiders : std::uint8_t { services, jobs, kernel, others };

/// The rule that reports them; if the collector did not record the kind of outsiders, that is cpu.outsider.
[[nodiscard]] std::string_view rule_of(std::optional<Outsiders> who) noexcept;

/// Rows of the rules' tables.
inline constexpr Threshold kOutsiderThresholds[] = {
    {"min_cpu", 0.15, "cpus", "least cpu time of outsiders above the usual level"},
    {"min_seconds", 3, "s", "shortest interval"},
    kMinScore,
    {"min_wait", 0.08, "s/s", "least extra run-queue wait of the job"},
    {"min_displaced_share", 0.5, "ratio", "least share of the outsiders' cpu time that the job lost"},
    {"min_constant_cpu", 0.3, "cpus",
     "outsiders' cpu time in nine of ten seconds from which they are reported as constant"},
    {"min_constant_seconds", 20, "s", "shortest job in which constant outsiders are reported"},
    kMinLostSeconds,
    kMinLostPercent};
[[nodiscard]] std::vector<Threshold> outsider_thresholds(std::vector<Threshold> more = {});

/// Cpus that those used on the cpus of the job; nothing if the collector did not see their kind.
[[nodiscard]] std::optional<MetricSeries> outsider_time(const RuleContext& context, Outsiders who);

/// Returns the findings of the context's rule: each interval in which the outsiders of this rule took most, and the
/// level that lasts for the whole job. The rule has the rows above.
[[nodiscard]] std::vector<Finding> outsider_findings(const RuleContext& context);

}  // namespace reveal
