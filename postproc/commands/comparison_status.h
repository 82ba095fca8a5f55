// Exit statuses of the commands that compare: a script goes on with 0, whether the time is better or as it was.
#pragma once

#include "postproc/compare/job_comparison.h"

namespace reveal {

inline constexpr int kNotWorse = 0;
inline constexpr int kRegression = 1;
inline constexpr int kTrouble = 2;
inline constexpr int kNotKnown = 3;  // never compared must read differently from not worse

[[nodiscard]] constexpr int comparison_status(TimeChange change) noexcept {
  if (change == TimeChange::not_known) return kNotKnown;
  return change == TimeChange::slower ? kRegression : kNotWorse;
}

}  // namespace reveal
