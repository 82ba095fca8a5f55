#include "postproc/numerics/present_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "postproc/numerics/simd.h"

namespace reveal {
namespace {

REVEAL_VECTOR(Lanes, std::int64_t, 32);

/// A page of memory.
constexpr std::size_t kStretch = 512;

REVEAL_WIDE void look_through(const double* values, std::size_t n, PresentValues& out) {
  Wide sum{};
  Wide low = Wide{} + out.low;
  Wide high = Wide{} + out.high;
  Lanes missing{};
  std::size_t t = 0;
  for (; t + kWide <= n; t += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values + t);
    const Lanes is_present = v == v;  // NOLINT(misc-redundant-expression): NaN is not
    missing += is_present + 1;
    sum += is_present ? v : Wide{};
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  out.present += t;
  for (unsigned lane = 0; lane < kWide; ++lane) {
    out.present -= static_cast<std::size_t>(missing[lane]);
    out.sum += sum[lane];
    out.low = std::min(out.low, low[lane]);
    out.high = std::max(out.high, high[lane]);
  }
  for (; t < n; ++t) {
    if (std::isnan(values[t])) continue;
    ++out.present;
    out.sum += values[t];
    out.low = std::min(out.low, values[t]);
    out.high = std::max(out.high, values[t]);
  }
}

/// Counts the changes in a stretch without NaN.
REVEAL_WIDE std::size_t count_changes(const double* values, std::size_t n) {
  Lanes same{};
  std::size_t t = 1;
  for (; t + kWide <= n; t += kWide) {
    same += *reinterpret_cast<const Wide*>(values + t) == *reinterpret_cast<const Wide*>(values + t - 1);
  }
  std::size_t changes = t - 1;
  for (unsigned lane = 0; lane < kWide; ++lane) changes -= static_cast<std::size_t>(-same[lane]);
  for (; t < n; ++t) changes += values[t] != values[t - 1] ? 1 : 0;
  return changes;
}

REVEAL_WIDE bool any_bit(const double* values, std::size_t n) {
  Lanes bits{};
  std::size_t t = 0;
  for (; t + kWide <= n; t += kWide) bits |= *reinterpret_cast<const Lanes*>(values + t);
  std::uint64_t any = 0;
  for (unsigned lane = 0; lane < kWide; ++lane) any |= static_cast<std::uint64_t>(bits[lane]);
  for (; t < n; ++t) any |= std::bit_cast<std::uint64_t>(values[t]);
  return any != 0;
}

REVEAL_WIDE bool any_nan(const double* values, std::size_t n) {
  Lanes missing{};
  std::size_t t = 0;
  for (; t + kWide <= n; t += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values + t);
    missing |= v != v;  // NOLINT(misc-redundant-expression): NaN is not
  }
  bool any = false;
  for (unsigned lane = 0; lane < kWide; ++lane) any = any || missing[lane] != 0;
  for (; t < n; ++t) any = any || std::isnan(values[t]);
  return any;
}

}  // namespace

bool any_missing(std::span<const double> values) {
  return any_nan(values.data(), values.size());
}

PresentValues present_values(std::span<const double> values) {
  PresentValues all;
  look_through(values.data(), values.size(), all);
  return all;
}

std::size_t changes_in(std::span<const double> values, double before) {
  std::size_t changes = 0;
  for (std::size_t first = 0; first < values.size();) {
    if (std::isnan(values[first])) {
      ++first;
      continue;
    }
    std::size_t last = first + 1;
    while (last < values.size() && !std::isnan(values[last])) ++last;
    changes += !std::isnan(before) && values[first] != before ? 1 : 0;
    changes += count_changes(values.data() + first, last - first);
    before = values[last - 1];
    first = last;
  }
  return changes;
}

bool copy_onto_zeros(std::span<const double> from, std::span<double> to) {
  bool copied = false;
  for (std::size_t first = 0; first < from.size(); first += kStretch) {
    const auto some = from.subspan(first, std::min(kStretch, from.size() - first));
    if (!any_bit(some.data(), some.size())) continue;
    std::copy(some.begin(), some.end(), to.begin() + static_cast<std::ptrdiff_t>(first));
    copied = true;
  }
  return copied;
}

}  // namespace reveal
