#include "core/gpu/call_pace.h"

#include <algorithm>

namespace reveal {

bool CallPace::is_due(std::uint64_t request) noexcept {
  if (request == request_) return due_;
  request_ = request;
  if (due_) {
    every_ = longest_now_ > kSlow ? std::min(2 * every_, kSlowest) : std::max(every_ / 2, 1);
    left_ = every_;
    longest_now_ = {};
  }
  due_ = --left_ <= 0;
  return due_;
}

void CallPace::took(std::chrono::nanoseconds time) noexcept {
  longest_now_ = std::max(longest_now_, time);
  longest_ = std::max(longest_, time);
}

}  // namespace reveal
