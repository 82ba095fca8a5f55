#include "core/stack/call_budget.h"

#include <algorithm>

namespace reveal {

void CallBudget::begin(double cpu_ns) noexcept {
  const double earned = kShare * cpu_ns;
  left_ns_ = std::min(std::max(kBurstNs, earned), left_ns_ + earned);
  most_ns_ = 0;
  dearest_ = -1;
}

void CallBudget::spend(int function, double calls, double cost_ns) noexcept {
  const double spent = calls * cost_ns;
  left_ns_ -= spent;
  if (spent <= most_ns_) return;
  most_ns_ = spent;
  dearest_ = function;
}

int CallBudget::end() noexcept {
  if (left_ns_ >= 0) return -1;
  left_ns_ = kBurstNs;  // the others begin anew: their cost was not too high
  return dearest_;
}

}  // namespace reveal
