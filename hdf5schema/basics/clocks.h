// The clocks of the kernel, in nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace reveal {

inline constexpr std::int64_t kSecond = 1'000'000'000;

[[nodiscard]] constexpr std::int64_t nanoseconds_of(const timespec& time) noexcept {
  return static_cast<std::int64_t>(time.tv_sec) * kSecond + time.tv_nsec;
}

/// clock_gettime(2) of a clock that always exists: CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, ...
[[nodiscard]] inline std::int64_t read_clock(clockid_t clock) noexcept {
  timespec time{};
  ::clock_gettime(clock, &time);
  return nanoseconds_of(time);
}

/// The wall clock, for times that are stored or shown.
[[nodiscard]] inline std::int64_t utc_now_ns() noexcept {
  return read_clock(CLOCK_REALTIME);
}

/// Processor time of this process.
[[nodiscard]] inline double cpu_seconds() noexcept {
  return static_cast<double>(read_clock(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9;
}

}  // namespace reveal
