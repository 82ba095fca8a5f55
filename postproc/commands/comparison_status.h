// Exit statuses of the commands that compare: a script goes on with 0, whether the time is better or as it was.
#pragma once

#include <algorithm>
#include <vector>

#include "postproc/compare/job_comparison.h"
#include "postproc/report/job_ending.h"

namespace reveal {

inline constexpr int kNotWorse = 0;
inline constexpr int kRegression = 1;
inline constexpr int kTrouble = 2;
inline constexpr int kNotKnown = 3;  // never compared must read differently from not worse

[[nodiscard]] constexpr int comparison_status(TimeChange change) noexcept {
  if (change == TimeChange::not_known) return kNotKnown;
  return change == TimeChange::slower ? kRegression : kNotWorse;
}

/// A run after the change that failed has no time: the times of the others do not show that the change did no harm.
[[nodiscard]] inline int comparison_status(TimeChange change, const std::vector<ComparedRun>& after) {
  const bool failed =
      std::any_of(after.begin(), after.end(), [](const ComparedRun& run) { return has_failed(run.report.job); });
  return failed && change != TimeChange::slower ? kNotKnown : comparison_status(change);
}

}  // namespace reveal
