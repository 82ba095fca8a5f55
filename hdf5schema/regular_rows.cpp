#include "hdf5schema/regular_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hdf5schema/basics/wrapping_sum.h"

namespace reveal {
namespace {

std::int64_t rounded_division(std::int64_t a, std::int64_t b) noexcept {
  const std::int64_t rest = 2 * (a % b);  // periods have at most 10^18 ns
  return a / b + (rest >= b ? 1 : 0) - (rest <= -b ? 1 : 0);
}

double merged(Kind kind, double kept, double value) noexcept {
  if (std::isnan(value)) return kept;
  return is_counted(kind) && !std::isnan(kept) ? kept + value : value;
}

/// The last row of each group of rows that belong together.
std::vector<std::size_t> last_rows(const FamilySpec& spec, std::int64_t utc_minus_monotonic_ns,
                                   const std::vector<std::int64_t>& times) {
  std::vector<std::size_t> last;
  for (std::size_t row = 0; row < times.size(); ++row) {
    const bool more = row + 1 < times.size() &&
                      in_one_period(times[row], times[row + 1], utc_minus_monotonic_ns, spec.period, spec.faster);
    if (!more) last.push_back(row);
  }
  return last;
}

}  // namespace

std::int64_t wall_period(std::int64_t monotonic_ns, std::int64_t utc_minus_monotonic_ns,
                         std::chrono::nanoseconds period, std::chrono::nanoseconds finer) noexcept {
  const std::int64_t ticks = std::max<std::int64_t>(1, period / finer);
  const std::int64_t tick = rounded_division(wrapping_sum(monotonic_ns, utc_minus_monotonic_ns), finer.count());
  return tick / ticks + (tick % ticks > 0 ? 1 : 0);
}

bool are_close(std::int64_t time_ns, std::int64_t next_ns, std::chrono::nanoseconds period) noexcept {
  const std::uint64_t distance = static_cast<std::uint64_t>(next_ns) - static_cast<std::uint64_t>(time_ns);
  return distance < static_cast<std::uint64_t>(period.count() / 4 * 3);
}

bool in_one_period(std::int64_t time_ns, std::int64_t next_ns, std::int64_t utc_minus_monotonic_ns,
                   std::chrono::nanoseconds period, std::chrono::nanoseconds finer) noexcept {
  return are_close(time_ns, next_ns, period) && wall_period(time_ns, utc_minus_monotonic_ns, period, finer) ==
                                                    wall_period(next_ns, utc_minus_monotonic_ns, period, finer);
}

void merge_extra_rows(const FamilySpec& spec, std::int64_t utc_minus_monotonic_ns, std::vector<std::int64_t>& times,
                      std::vector<double>& values) {
  if (spec.faster.count() <= 0) return;
  const std::vector<std::size_t> last = last_rows(spec, utc_minus_monotonic_ns, times);
  const std::size_t rows = times.size();
  if (last.size() == rows) return;
  std::size_t to = 0;
  for (std::size_t first = 0; first < values.size(); first += rows) {
    std::size_t row = 0;
    for (const std::size_t end : last) {
      double kept = std::numeric_limits<double>::quiet_NaN();
      for (; row <= end; ++row) kept = merged(spec.kind, kept, values[first + row]);
      values[to++] = kept;
    }
  }
  values.resize(to);
  std::transform(last.begin(), last.end(), times.begin(), [&times](std::size_t row) { return times[row]; });
  times.resize(last.size());
}

}  // namespace reveal
