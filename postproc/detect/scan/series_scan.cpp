#include "postproc/detect/scan/series_scan.h"

#include <algorithm>
#include <cmath>

#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

REVEAL_WIDE void sliding_means(const double* prefix, std::size_t length, std::size_t n, float* out) {
  const double share = 1 / static_cast<double>(length);
  std::size_t s = 0;
  for (; s + kWide <= n; s += kWide) {
    const Wide sum = *reinterpret_cast<const Wide*>(prefix + s + length) - *reinterpret_cast<const Wide*>(prefix + s);
    *reinterpret_cast<WideFloats*>(out + s) = __builtin_convertvector(sum * share, WideFloats);
  }
  for (; s < n; ++s) out[s] = static_cast<float>((prefix[s + length] - prefix[s]) * share);
}

/// Prefix sums and ranges at the begins and ends of intervals of one length.
struct Ends {
  const double* at_begin;
  const double* at_end;
  const float* high_before;
  const float* low_before;
  const float* high_after;
  const float* low_after;
};

REVEAL_WIDE void beyond(const Ends& at, double length, float noise, std::size_t count, float* out) {
  const WideFloats zero{};
  std::size_t i = 0;
  for (; i + kWide <= count; i += kWide) {
    const auto narrow = [i](const float* from) __attribute__((always_inline)) {
      return *reinterpret_cast<const WideFloats*>(from + i);
    };
    const Wide sum = *reinterpret_cast<const Wide*>(at.at_end + i) - *reinterpret_cast<const Wide*>(at.at_begin + i);
    const WideFloats inside = __builtin_convertvector(sum / length, WideFloats);
    const WideFloats high_before = narrow(at.high_before);
    const WideFloats high_after = narrow(at.high_after);
    const WideFloats low_before = narrow(at.low_before);
    const WideFloats low_after = narrow(at.low_after);
    const WideFloats high = high_before < high_after ? high_after : high_before;
    const WideFloats low = low_after < low_before ? low_after : low_before;
    const WideFloats above = inside - high;
    const WideFloats below = low - inside;
    WideFloats far = above < below ? below : above;
    far = zero < far ? far : zero;
    far = high < low ? zero : far;  // no reference mean is left
    *reinterpret_cast<WideFloats*>(out + i) = far / noise;
  }
  for (; i < count; ++i) {
    const auto inside = static_cast<float>((at.at_end[i] - at.at_begin[i]) / length);
    const float high = std::max(at.high_before[i], at.high_after[i]);
    const float low = std::min(at.low_before[i], at.low_after[i]);
    out[i] = high < low ? 0 : std::max({0.0F, inside - high, low - inside}) / noise;
  }
}

/// Widens the range to all values.
REVEAL_WIDE void widen(const float* values, std::size_t n, float& high, float& low) {
  WideFloats highest = WideFloats{} + high;
  WideFloats lowest = WideFloats{} + low;
  std::size_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    const WideFloats v = *reinterpret_cast<const WideFloats*>(values + i);
    highest = highest < v ? v : highest;
    lowest = v < lowest ? v : lowest;
  }
  for (unsigned lane = 0; lane < kWide; ++lane) {
    high = std::max(high, highest[lane]);
    low = std::min(low, lowest[lane]);
  }
  for (; i < n; ++i) {
    high = std::max(high, values[i]);
    low = std::min(low, values[i]);
  }
}

/// Widens the range of each stretch of `step` values, at first -INFINITY to INFINITY; four stretches side by side.
REVEAL_WIDE void stretch_extremes(const float* values, std::size_t step, std::size_t count, float* high, float* low) {
  std::size_t i = 0;
  for (; i + kWide <= count; i += kWide) {
    const float* first = values + i * step;
    WideFloats most = WideFloats{} - INFINITY;
    WideFloats least = WideFloats{} + INFINITY;
    for (const float* at = first; at < first + step; ++at) {
      const WideFloats v{at[0], at[step], at[2 * step], at[3 * step]};
      most = most < v ? v : most;
      least = v < least ? v : least;
    }
    *reinterpret_cast<WideFloats*>(high + i) = most;
    *reinterpret_cast<WideFloats*>(low + i) = least;
  }
  for (; i < count; ++i) widen(values + i * step, step, high[i], low[i]);
}

/// Adds up the sums of `length` scores that begin at [0, n), and their squares.
REVEAL_WIDE MeanSums sums_of_stretches(const double* prefix, std::size_t length, std::size_t n) {
  MeanSums all;
  Wide sums{};
  Wide all_squares{};
  std::size_t s = 0;
  for (; s + kWide <= n; s += kWide) {
    const Wide one = *reinterpret_cast<const Wide*>(prefix + s + length) - *reinterpret_cast<const Wide*>(prefix + s);
    sums += one;
    all_squares += one * one;
  }
  for (unsigned lane = 0; lane < kWide; ++lane) {
    all.means += sums[lane];
    all.squares += all_squares[lane];
  }
  for (; s < n; ++s) {
    const double one = prefix[s + length] - prefix[s];
    all.means += one;
    all.squares += one * one;
  }
  return all;
}

/// Number of stretches of `length` scores.
std::size_t stretches(std::span<const double> prefix, std::size_t length) {
  return prefix.size() < length ? 0 : prefix.size() - length;
}

void take_every(std::span<const double> from, std::size_t first, std::size_t step, std::size_t count,
                std::vector<double>& out) {
  out.resize(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = from[first + i * step];
}

}  // namespace

void prefix_sums(std::span<const float> scores, std::vector<double>& prefix) {
  constexpr std::size_t kTogether = 4;  // a sum that waits for the one before it takes four cycles
  prefix.resize(scores.size() + 1);
  prefix[0] = 0;
  double sum = 0;
  std::size_t t = 0;
  for (; t + kTogether <= scores.size(); t += kTogether) {
    const double two = static_cast<double>(scores[t]) + scores[t + 1];
    prefix[t + 1] = sum + scores[t];
    prefix[t + 2] = sum + two;
    prefix[t + 3] = sum + (two + scores[t + 2]);
    prefix[t + 4] = sum += two + (static_cast<double>(scores[t + 2]) + scores[t + 3]);
  }
  for (; t < scores.size(); ++t) prefix[t + 1] = sum += scores[t];
}

MeanSums sums_of_means(std::span<const double> prefix, std::size_t length) {
  const MeanSums sums = sums_of_stretches(prefix.data(), length, stretches(prefix, length));
  const auto count = static_cast<double>(length);  // divides two sums, not every mean
  return {.means = sums.means / count, .squares = sums.squares / (count * count)};
}

double z_outside(std::span<const double> prefix, double variance, std::size_t reference_length, std::size_t begin,
                 std::size_t end) {
  const std::size_t reference = std::min(reference_length, end - begin);
  const auto before = prefix.first(begin + 1);
  const auto after = prefix.subspan(end);
  const auto n = static_cast<double>(stretches(before, reference) + stretches(after, reference));
  if (n == 0 || variance <= 0) return 0;
  const MeanSums sums_before = sums_of_means(before, reference);
  const MeanSums sums_after = sums_of_means(after, reference);
  const double center = (sums_before.means + sums_after.means) / n;
  const double spread = std::max(0.0, (sums_before.squares + sums_after.squares) / n - center * center);
  const auto length = static_cast<double>(end - begin);
  const double inside = (prefix[end] - prefix[begin]) / length;
  return (inside - center) / std::sqrt(spread * static_cast<double>(reference) / length + variance / length);
}

SeriesScan::SeriesScan(std::span<const float> scores, double variance, double hold, std::size_t reference_length) {
  assign(scores, variance, hold);
  set_reference_length(reference_length);
}

void SeriesScan::assign(std::span<const float> scores, double variance, double hold) {
  samples_ = scores.size();
  variance_ = variance * hold;
  prefix_sums(scores, prefix_);
  begin_step_ = 0;
}

void SeriesScan::set_reference_length(std::size_t length) {
  reference_length_ = length;
  reference_means_.resize(samples_ < length ? 0 : samples_ - length + 1);
  sliding_means(prefix_.data(), length, reference_means_.size(), reference_means_.data());
  before_.step = after_.step = 0;
}

float SeriesScan::noise(std::size_t length) const {
  return static_cast<float>(std::sqrt(variance_ / static_cast<double>(length)));
}

float SeriesScan::gap(std::size_t begin, std::size_t end) const {
  float high = -INFINITY;
  float low = INFINITY;
  const std::size_t n = reference_means_.size();
  const std::size_t before = begin < reference_length_ ? 0 : std::min(n, begin - reference_length_ + 1);
  widen(reference_means_.data(), before, high, low);
  if (end < n) widen(reference_means_.data() + end, n - end, high, low);
  if (low > high || variance_ <= 0) return 0;
  const auto inside = static_cast<float>(mean(begin, end));
  return std::max({0.0F, inside - high, low - inside}) / noise(end - begin);
}

/// Entry i: of the means that end at or before sample i * step + phase - reference length, for the first i at which
/// there is one; none before.
void SeriesScan::extremes_before(std::size_t phase, std::size_t step) {
  if (!start(before_, phase, step)) return;
  const std::size_t n = reference_means_.size();
  const std::size_t count = before_.high.size();
  const std::size_t first = reference_length_ <= phase ? 0 : (reference_length_ - phase + step - 1) / step;
  if (n == 0 || first >= count) return;
  float* high = before_.high.data() + first;
  float* low = before_.low.data() + first;
  const std::size_t begin = std::min(n, first * step + phase - reference_length_ + 1);
  widen(reference_means_.data(), begin, high[0], low[0]);
  const std::size_t whole = std::min(count - first - 1, (n - begin) / step);
  stretch_extremes(reference_means_.data() + begin, step, whole, high + 1, low + 1);
  if (first + 1 + whole < count) {
    const std::size_t end = begin + whole * step;
    widen(reference_means_.data() + end, n - end, high[whole + 1], low[whole + 1]);
  }
  for (std::size_t i = first + 1; i < count; ++i) {
    before_.high[i] = std::max(before_.high[i], before_.high[i - 1]);
    before_.low[i] = std::min(before_.low[i], before_.low[i - 1]);
  }
}

/// Entry k: of the means that begin at or after k * step + phase.
void SeriesScan::extremes_after(std::size_t phase, std::size_t step) {
  if (!start(after_, phase, step)) return;
  const std::size_t n = reference_means_.size();
  if (n <= phase) return;
  const std::size_t whole = (n - phase) / step;
  float* high = after_.high.data();
  float* low = after_.low.data();
  stretch_extremes(reference_means_.data() + phase, step, whole, high, low);
  const std::size_t end = phase + whole * step;
  widen(reference_means_.data() + end, n - end, high[whole], low[whole]);
  for (std::size_t k = whole; k-- > 0;) {
    after_.high[k] = std::max(after_.high[k], after_.high[k + 1]);
    after_.low[k] = std::min(after_.low[k], after_.low[k + 1]);
  }
}

/// Makes room for extremes at other positions; false where these are known.
bool SeriesScan::start(Extremes& extremes, std::size_t phase, std::size_t step) const {
  if (extremes.step == step && extremes.phase == phase) return false;
  extremes.step = step;
  extremes.phase = phase;
  extremes.high.assign(samples_ / step + 2, -INFINITY);
  extremes.low.assign(samples_ / step + 2, INFINITY);
  return true;
}

void SeriesScan::gaps(std::size_t length, std::size_t step, std::span<float> out) {
  if (variance_ <= 0) return std::fill(out.begin(), out.end(), 0.0F);
  extremes_before(0, step);
  extremes_after(length % step, step);
  if (begin_step_ != step) take_every(prefix_, 0, step, samples_ / step + 1, at_begin_);
  begin_step_ = step;
  const std::size_t ends = length / step;
  const bool in_step = length % step == 0;  // where one ends, another one begins
  if (!in_step) take_every(prefix_, length, step, out.size(), at_end_);
  beyond({at_begin_.data(), in_step ? at_begin_.data() + ends : at_end_.data(), before_.high.data(), before_.low.data(),
          after_.high.data() + ends, after_.low.data() + ends},
         static_cast<double>(length), noise(length), out.size(), out.data());
}

void SeriesScan::open_gaps(std::size_t first, std::size_t step, std::span<float> out) {
  extremes_before(first % step, step);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t begin = first + i * step;
    const float high = before_.high[begin / step];
    const float low = before_.low[begin / step];
    const auto inside = static_cast<float>(mean(begin, samples_));
    const bool known = low <= high && variance_ > 0;
    out[i] = known ? std::max({0.0F, inside - high, low - inside}) / noise(samples_ - begin) : 0;
  }
}

}  // namespace reveal
