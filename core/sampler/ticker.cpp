#include "core/sampler/ticker.h"

#include <cstdlib>
#include <ctime>

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

// Slewing moves both clocks alike; only a step moves one against the other. Reading them one after the other costs
// less.
// https://man7.org/linux/man-pages/man2/clock_gettime.2.html
constexpr std::int64_t kSmallestStep = 2'000'000;

}  // namespace

TickTime SystemClock::now() const noexcept {
  // The reading is repeated when something came between the two clocks.
  TickTime best;
  std::int64_t narrowest = INT64_MAX;
  for (int attempt = 0; attempt < 4 && narrowest > 20'000; ++attempt) {
    const std::int64_t before = read_clock(CLOCK_MONOTONIC);
    const std::int64_t utc = read_clock(CLOCK_REALTIME);
    const std::int64_t after = read_clock(CLOCK_MONOTONIC);
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = {before + narrowest / 2, utc};
  }
  return best;
}

void SystemClock::sleep_until(std::int64_t monotonic_ns) noexcept {
  const timespec until{static_cast<time_t>(monotonic_ns / kSecond), static_cast<long>(monotonic_ns % kSecond)};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

Ticker::Ticker(Clock& clock, std::chrono::nanoseconds interval) : clock_(clock), interval_(interval.count()) {
  const TickTime now = clock_.now();
  offset_ = now.utc_ns - now.monotonic_ns;
  last_offset_ = offset_;
  next_ = now.utc_ns / interval_ + 1;
}

std::optional<Tick> Ticker::wait() noexcept {
  const std::int64_t deadline = next_ * interval_ - offset_;
  clock_.sleep_until(deadline);
  const TickTime now = clock_.now();
  if (now.monotonic_ns < deadline) return std::nullopt;
  Tick tick;
  tick.missed = (now.monotonic_ns - deadline) / interval_;
  tick.number = next_ + tick.missed;
  next_ = tick.number + 1;
  const std::int64_t nominal = tick.number * interval_ - offset_;
  tick.late_ns = now.monotonic_ns - nominal;
  const bool exact = tick.late_ns * kExactWithin < interval_;
  tick.time.monotonic_ns = exact ? nominal : now.monotonic_ns;
  tick.time.utc_ns = now.utc_ns - (now.monotonic_ns - tick.time.monotonic_ns);
  const std::int64_t offset = now.utc_ns - now.monotonic_ns;
  if (std::llabs(offset - last_offset_) > kSmallestStep) tick.clock_step_ns = offset - last_offset_;
  last_offset_ = offset;
  return tick;
}

}  // namespace reveal
