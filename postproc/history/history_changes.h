// Compares a run with its baseline, the earlier runs without a finding: run time and channels, each as a moderated t
// (postproc/numerics/moderated_t.h) of its activity (postproc/telemetry/metric_facts.h), in logarithms, against the
// median of up to 20 last runs; and, for a drift too slow for neighbours to show, against the 5 oldest. Channels at a
// false-discovery rate of 5 % over all of them.
#pragma once

#include <vector>

#include "postproc/history/history.h"

namespace reveal {

/// Channels of a list of changes that a report can hold.
inline constexpr std::size_t kMostChanges = 60;

/// Appends to `history.changes`. `baseline_runs`: at least kLeastRuns, oldest first.
void compare_run_time(const RunRecord& run, const std::vector<const RunRecord*>& baseline_runs,
                      const AnalysisSettings& settings, HistoryComparison& history);
void compare_channels(const RunRecord& run, const std::vector<const RunRecord*>& baseline_runs,
                      HistoryComparison& history);

}  // namespace reveal
