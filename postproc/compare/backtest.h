// The findings of rules with other thresholds in an archived job: its traces are analysed with the settings in
// force and with the changed ones, and only the findings are compared. Nothing is written.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/report/report.h"

namespace reveal {

enum class RuleState : std::uint8_t { found, not_found, not_checked };
[[nodiscard]] std::string_view name_of(RuleState) noexcept;
[[nodiscard]] std::optional<RuleState> rule_state_of(std::string_view) noexcept;

/// The result of a rule for one job.
struct RuleResult {
  RuleState state = RuleState::not_found;
  Severity severity = Severity::info;  // found; the highest
  std::size_t nodes = 0;               // found
  std::size_t findings = 0;            // found
  std::optional<double> seconds;       // found; of the job's run time
  std::string reason;                  // not checked
  bool operator==(const RuleResult&) const = default;
};

struct BacktestedRule {
  std::string rule;
  RuleResult before, after;
};

enum class BacktestOutcome : std::uint8_t {
  appeared,
  went,
  changed,      // found by both, on other nodes or with another severity or cost
  same,         // found by both
  without,      // found by neither
  not_checked,  // not checked by one of them
};
[[nodiscard]] std::string_view name_of(BacktestOutcome) noexcept;
[[nodiscard]] BacktestOutcome outcome_of(const BacktestedRule& rule) noexcept;

struct BacktestedJob {
  std::string directory;
  std::string failure;  // why it could not be analysed, or ""
  std::vector<BacktestedRule> rules;
  std::vector<std::string> appeared, went;  // ids of other rules, because of the change
};

/// A changed threshold: "cpu.outsider.min_cpu = 0.5 cpus (was 0.15)".
struct BacktestChange {
  std::string rule, key, before, after;
};

/// The rules of both reports of one job.
[[nodiscard]] BacktestedJob compare_findings(const Report& before, const Report& after,
                                             std::span<const std::string> rules);

/// Throws Error where the traces cannot be analysed again.
[[nodiscard]] BacktestedJob backtest_job(const std::filesystem::path& directory, const AnalysisSettings& before,
                                         const AnalysisSettings& after, std::span<const std::string> rules);

/// As JSON on one line, and back: throws Error.
[[nodiscard]] std::string render_backtested(const BacktestedJob& job);
[[nodiscard]] BacktestedJob parse_backtested(const std::string& json);

struct BacktestTotals {
  std::string rule;
  std::size_t jobs = 0;  // that could be analysed
  std::size_t before = 0, after = 0, appeared = 0, went = 0, changed = 0, same = 0, without = 0, not_checked = 0;
};

struct Backtest {
  std::vector<BacktestChange> changes;
  std::vector<BacktestedJob> jobs;
  std::vector<BacktestTotals> totals;  // for each rule
};

[[nodiscard]] std::vector<BacktestTotals> totals_of(std::span<const BacktestedJob> jobs,
                                                    std::span<const std::string> rules);

[[nodiscard]] std::string backtest_as_text(const Backtest& backtest, const TextStyle& style);
[[nodiscard]] std::string backtest_as_json(const Backtest& backtest);

}  // namespace reveal
