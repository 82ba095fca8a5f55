// How often the calls into a GPU library are made: one that is slow is made less often, because each of them takes a
// lock of the driver, for which the job's own calls wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>

namespace reveal {

/// One call, which a request makes for each GPU.
class CallPace {
 public:
  static constexpr std::chrono::milliseconds kSlow{50};
  static constexpr int kSlowest = 16;  // requests from one use to the next

  /// Whether this request makes the call; the same for all of its GPUs.
  [[nodiscard]] bool is_due(std::uint64_t request) noexcept;
  void took(std::chrono::nanoseconds time) noexcept;

  /// Used in one of so many requests: twice as many after each slow use, half as many after one that was not.
  [[nodiscard]] int every() const noexcept { return every_; }
  [[nodiscard]] std::chrono::nanoseconds longest() const noexcept { return longest_; }

 private:
  std::uint64_t request_ = 0;
  int every_ = 1;
  int left_ = 0;  // requests before the next use
  bool due_ = false;
  std::chrono::nanoseconds longest_now_{};  // in this request
  std::chrono::nanoseconds longest_{};
};

/// All calls, by their names in the library, which outlive this.
class CallPaces {
 public:
  void begin_request() noexcept { ++request_; }
  [[nodiscard]] CallPace& of(std::string_view name) { return paces_[name]; }
  [[nodiscard]] std::uint64_t request() const noexcept { return request_; }
  [[nodiscard]] const std::map<std::string_view, CallPace>& all() const noexcept { return paces_; }

 private:
  std::uint64_t request_ = 0;
  std::map<std::string_view, CallPace> paces_;
};

}  // namespace reveal
