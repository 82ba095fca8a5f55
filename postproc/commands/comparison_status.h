// Exit statuses of the commands that answer a question by them, as diff and cmp do.
#pragma once

#include "postproc/compare/job_comparison.h"

namespace reveal {

inline constexpr int kNoDifference = 0;
inline constexpr int kDifference = 1;
inline constexpr int kTrouble = 2;
inline constexpr int kNotKnown = 3;  // never compared must read differently from no difference

[[nodiscard]] constexpr int comparison_status(TimeChange change) noexcept {
  if (change == TimeChange::not_known) return kNotKnown;
  return change == TimeChange::same ? kNoDifference : kDifference;
}

}  // namespace reveal
