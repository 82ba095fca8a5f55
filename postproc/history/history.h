// This run against earlier ones of the same command and shape, on the same resources. A run with findings is no
// baseline, so that a fault does not become normal; a drift too slow for neighbours to show is seen against the oldest
// runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/finding.h"
#include "postproc/history/run_record.h"

namespace reveal {

/// Accepted runs that a baseline needs. Below, only configuration is compared.
inline constexpr std::size_t kLeastRuns = 3;
/// Accepted runs with which a run is compared, the last ones: a baseline is no older.
inline constexpr std::size_t kRecentRuns = 20;

/// Never compared, compared in part and compared without a difference are three different things.
enum class HistoryStatus : std::uint8_t { never_compared, too_few_runs, compared };
[[nodiscard]] std::string_view name_of(HistoryStatus) noexcept;
[[nodiscard]] std::optional<HistoryStatus> history_status_of(std::string_view) noexcept;

struct HistoryChange {
  enum class What : std::uint8_t { run_time, channel, configuration };
  What what = What::channel;
  std::string name;
  std::string unit;
  Subsystem subsystem = Subsystem::cpu;
  std::optional<double> observed, expected;  // expected: median of the baseline
  double percent = 0;
  double t = 0;
  std::string now, before;        // values of a configuration fact; "" if it is not recorded, or was not
  std::int64_t since_utc_ns = 0;  // begin of the last run that was still otherwise
  bool drift = false;             // seen against the oldest runs only
  bool operator==(const HistoryChange&) const = default;
};
[[nodiscard]] std::string_view name_of(HistoryChange::What) noexcept;
[[nodiscard]] std::optional<HistoryChange::What> history_change_of(std::string_view) noexcept;

/// A run before this one.
struct EarlierRun {
  std::int64_t begin_utc_ns = 0;
  double seconds = 0;
  bool in_baseline = false;
  bool operator==(const EarlierRun&) const = default;
};
inline constexpr std::size_t kDrawnRuns = 20;  // that are drawn

struct HistoryComparison {
  HistoryStatus status = HistoryStatus::never_compared;
  std::string reason = "not compared with earlier runs of this job";  // reason for every status but `compared`
  std::string key;
  std::size_t runs = 0;                            // earlier ones of this command and shape
  std::size_t accepted = 0;                        // runs of these that are usable as a baseline
  std::size_t channels = 0;                        // compared
  std::int64_t first_utc_ns = 0, last_utc_ns = 0;  // times of the accepted runs
  bool enters_baseline = false;
  std::string why_not;                 // it does not
  std::vector<HistoryChange> changes;  // run time, then channels by falling |t|, then configuration
  std::size_t changes_left_out = 0;
  std::vector<EarlierRun> earlier;  // the newest kDrawnRuns, the oldest of them first
  std::string sentence;
  bool operator==(const HistoryComparison&) const = default;
};

/// The runs of `earlier` (in any order) with this command and shape, each once, the oldest first; of a task of an array
/// only those of the same task. Without this run's own earlier reports, and without later runs.
[[nodiscard]] std::vector<const RunRecord*> runs_before(const RunRecord& run, const std::vector<RunRecord>& earlier);
/// The runs of these that are a baseline for this one: normal ones, on the same resources.
[[nodiscard]] std::vector<const RunRecord*> baseline_among(const RunRecord& run,
                                                           const std::vector<const RunRecord*>& before);
/// False if a model of the machine, of its processor or of its GPUs, or the number of cpus or GPUs that Slurm gave to
/// the job on a node, is known of both runs and differs.
[[nodiscard]] bool has_same_resources(const RunRecord& one, const RunRecord& other);

[[nodiscard]] HistoryComparison compare_runs(const RunRecord& run, const std::vector<RunRecord>& earlier,
                                             const AnalysisSettings& settings = {});

/// Returns the findings of the comparison: none for a run like the others.
[[nodiscard]] std::vector<Finding> history_findings(const HistoryComparison& history,
                                                    const std::vector<std::string>& nodes, TimeSpan job,
                                                    const AnalysisSettings& settings = {});

}  // namespace reveal
