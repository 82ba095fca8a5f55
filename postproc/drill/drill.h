// A drill proves an installation: a small job with a known, harmless disturbance, and the question whether the report
// names it, at its place and time.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/report/report.h"

namespace reveal {

/// The disturbance of the job, and the rules of which one must report it.
struct Disturbance {
  std::string_view name;
  std::string_view does;                // "a process outside the job uses the cpu of the job"
  std::vector<std::string_view> rules;  // the usual one first
};
/// `outsider`: beside the job. `stopped`: inside the job, which is all that a user can reach in an allocation.
[[nodiscard]] const Disturbance& outsider_disturbance();
[[nodiscard]] const Disturbance& stopped_disturbance();
/// Null for an unknown name.
[[nodiscard]] const Disturbance* find_disturbance(std::string_view name) noexcept;

/// The disturbance as it happened, recorded by the processes that caused it.
struct DrillTruth {
  std::string disturbance;
  std::string node;
  TimeSpan span;
  double job_share = 1;  // share of its cpu that the job got without a disturbance; less on a busy cpu
};
[[nodiscard]] std::string render_drill_truth(const DrillTruth& truth);
/// Throws Error.
[[nodiscard]] DrillTruth parse_drill_truth(const std::string& json);

enum class DrillState : std::uint8_t { passed, failed, unknown, skipped };
[[nodiscard]] std::string_view name_of(DrillState) noexcept;

/// The state of a check that did not find its object: on a busy node, that proves nothing.
[[nodiscard]] DrillState missed(const DrillTruth& truth) noexcept;

struct DrillCheck {
  std::string name;
  DrillState state = DrillState::unknown;
  std::string sentence;
};

/// The trace of that node, and the three files of the report.
[[nodiscard]] std::vector<DrillCheck> check_drill_files(const std::filesystem::path& directory,
                                                        const std::string& node);
/// The finding, its node and its interval.
[[nodiscard]] std::vector<DrillCheck> check_drill_report(const Report& report, const DrillTruth& truth);

/// Overlap of two intervals as a share of both together; 0 where they do not meet.
[[nodiscard]] double overlap_over_union(const TimeSpan& one, const TimeSpan& other) noexcept;

/// failed if a check failed, unknown if one could not be made, else passed.
[[nodiscard]] DrillState verdict_of(std::span<const DrillCheck> checks) noexcept;
/// 0, 1 or 3.
[[nodiscard]] int exit_status_of(DrillState verdict) noexcept;

/// A line for each check and one for the verdict.
[[nodiscard]] std::string drill_as_text(std::span<const DrillCheck> checks, const TextStyle& style);
[[nodiscard]] std::string drill_as_json(std::span<const DrillCheck> checks, const DrillTruth& truth, double seconds,
                                        const std::string& kept);

}  // namespace reveal
