#include "postproc/live/cpu_budget.h"

#include <algorithm>

namespace reveal {
namespace {

constexpr double kMostSaved = 3;     // seconds of processor time
constexpr double kMostBorrowed = 6;  // an event and its end, looked at every second

}  // namespace

bool CpuBudget::allows(Need need, double now_seconds, double cost_seconds) {
  if (last_seconds_ >= 0) saved_ = std::min(kMostSaved, saved_ + share_ * std::max(0.0, now_seconds - last_seconds_));
  last_seconds_ = now_seconds;
  if (need == Need::routine) return saved_ >= cost_seconds;
  if (saved_ - cost_seconds >= -kMostBorrowed) return true;
  ++skipped_;
  return false;
}

void CpuBudget::spend(double cost_seconds) {
  saved_ -= cost_seconds;
  spent_ += cost_seconds;
  ++runs_;
}

}  // namespace reveal
