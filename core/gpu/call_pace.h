// How often the calls into a GPU library are made: each of them takes a lock of the driver, for which the job's own
// calls wait, and most of them spin while the GPU answers, which is processor time that the job lacks.
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
  /// From one use to the next, in requests.
  static constexpr int kLongestRest = 16;
  /// The same in rows, as the trace states it: some answers are late.
  static constexpr int kLongestGap = kLongestRest + 4;
  /// Uses before it rests for its cost: the first increment of a counter does not tell from when on it counts.
  static constexpr int kBeforeRest = 2;

  /// Whether this request makes the call; the same for all of its GPUs.
  [[nodiscard]] bool is_due() const noexcept { return due_; }
  /// One use: its time on the clock, and that of the processor.
  void took(std::chrono::nanoseconds clock, std::chrono::nanoseconds processor) noexcept;

  void end_request() noexcept;
  /// `rest`: from one use to the next, in requests, for what it costs.
  void begin_request(int rest) noexcept;

  /// Processor time of the last request that made the call, for all GPUs.
  [[nodiscard]] std::chrono::nanoseconds cost() const noexcept { return cost_; }
  /// For its time on the clock it is used in one of so many requests: twice as many after each slow use, half as many
  /// after one that was not.
  [[nodiscard]] int every() const noexcept { return every_; }
  [[nodiscard]] std::chrono::nanoseconds longest() const noexcept { return longest_; }

 private:
  bool due_ = true;
  int every_ = 1;
  int requests_ = 0;                                     // since its last use
  int uses_ = 0;                                         // up to kBeforeRest
  std::chrono::nanoseconds longest_now_{}, cost_now_{};  // in this request
  std::chrono::nanoseconds longest_{}, cost_{};
};

/// The calls that are made for one kind of request, by their names in the library, which outlive this. Together they
/// take at most a given share of a processor, as far as none rests for more than kLongestRest requests: calls that take
/// less than an equal part of it are made by each request, and the others have equal parts of the rest, for which they
/// wait after each use.
class CallPaces {
 public:
  static constexpr double kUnlimited = 1e9;

  explicit CallPaces(double share) : share_(share) {}
  /// The time from one request to the next.
  void set_period(std::chrono::nanoseconds period) noexcept { period_ = period; }

  void begin_request();
  [[nodiscard]] CallPace& of(std::string_view name) { return paces_[name]; }
  [[nodiscard]] const std::map<std::string_view, CallPace>& all() const noexcept { return paces_; }

 private:
  [[nodiscard]] double load(const CallPace& pace) const noexcept;
  [[nodiscard]] double fair_load() const;

  double share_;
  std::chrono::nanoseconds period_{std::chrono::seconds(1)};
  std::map<std::string_view, CallPace> paces_;
};

}  // namespace reveal
