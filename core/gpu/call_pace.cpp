#include "core/gpu/call_pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace reveal {

void CallPace::took(std::chrono::nanoseconds clock, std::chrono::nanoseconds processor) noexcept {
  longest_now_ = std::max(longest_now_, clock);
  longest_ = std::max(longest_, clock);
  cost_now_ += processor;
}

void CallPace::end_request() noexcept {
  if (!due_) return;
  every_ = longest_now_ > kSlow ? std::min(2 * every_, kLongestRest) : std::max(every_ / 2, 1);
  cost_ = cost_now_;
  requests_ = 0;
  uses_ = std::min(uses_ + 1, kBeforeRest);
  longest_now_ = cost_now_ = {};
}

void CallPace::begin_request(int rest) noexcept {
  due_ = ++requests_ >= std::max(every_, uses_ < kBeforeRest ? 1 : std::min(rest, kLongestRest));
}

void CallPaces::begin_request() {
  for (auto& [name, pace] : paces_) pace.end_request();
  const double fair = fair_load();
  for (auto& [name, pace] : paces_) {
    const double rest = std::ceil(load(pace) / fair);
    pace.begin_request(static_cast<int>(std::clamp<double>(rest, 1, CallPace::kLongestRest)));
  }
}

/// Share of a processor, if each request made the call.
double CallPaces::load(const CallPace& pace) const noexcept {
  return static_cast<double>(pace.cost().count()) / static_cast<double>(period_.count());
}

/// The most that one call may take, so that the sum is the share.
double CallPaces::fair_load() const {
  std::vector<double> loads;
  loads.reserve(paces_.size());
  for (const auto& [name, pace] : paces_) loads.push_back(load(pace));
  std::sort(loads.begin(), loads.end());
  double left = share_;
  auto calls = static_cast<double>(loads.size());
  for (const double one : loads) {
    if (one * calls > left) return left / calls;
    left -= one;
    calls -= 1;
  }
  return share_;  // none is limited
}

}  // namespace reveal
