// The durations of other runs of the same command and shape, from the caller's own history.
#pragma once

#include <vector>

#include "postproc/compare/job_comparison.h"
#include "postproc/history/run_index.h"

namespace reveal {

/// Returns the run times of earlier runs, the oldest first, without the compared runs themselves and without those that
/// failed or had a finding, unless it is that they took longer than others: without these, the spread would be too
/// small. Empty where the runs are not all of one command, or nothing is known of it. `state`: where the index of the
/// history is.
[[nodiscard]] std::vector<double> seconds_of_earlier_runs(const std::vector<ComparedRun>& before,
                                                          const std::vector<ComparedRun>& after,
                                                          const StatePlace& state);

}  // namespace reveal
