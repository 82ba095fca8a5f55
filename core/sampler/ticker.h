// When to sample: on whole multiples of the interval of wall time, so that all nodes sample together, slept on the
// monotonic clock, so that a wall clock that steps never re-spaces the axis.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

/// Time as the sampler sees it; tests bring their own.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TickTime now() const noexcept = 0;
  /// Returns at `monotonic_ns` or earlier, when a signal came.
  virtual void sleep_until(std::int64_t monotonic_ns) noexcept = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] TickTime now() const noexcept override;
  void sleep_until(std::int64_t monotonic_ns) noexcept override;
};

struct Tick {
  TickTime time;                   // the row's time: see kExactWithin
  std::int64_t number = 0;         // multiples of the interval since the epoch, when the sampler started
  std::int64_t late_ns = 0;        // when it began, after its time
  std::int64_t missed = 0;         // ticks skipped before it
  std::int64_t clock_step_ns = 0;  // how far the wall clock jumped since the tick before
};

class Ticker {
 public:
  /// A tick that begins within this share of the interval after its time carries its nominal time: regular axes
  /// compress to nothing, and `late_ns` still has the difference.
  static constexpr std::int64_t kExactWithin = 100;

  Ticker(Clock& clock, std::chrono::nanoseconds interval);
  /// Nothing if a signal ended the sleep.
  [[nodiscard]] std::optional<Tick> wait() noexcept;

 private:
  Clock& clock_;
  std::int64_t interval_;
  std::int64_t offset_;  // wall minus monotonic at the start: defines the grid for good
  std::int64_t last_offset_;
  std::int64_t next_;
};

}  // namespace reveal
