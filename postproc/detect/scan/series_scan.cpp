#include "postproc/detect/scan/series_scan.h"

#include <algorithm>
#include <cmath>

#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

REVEAL_VECTOR(Narrow, float, 16);

REVEAL_WIDE void sliding_means(const double* prefix, std::size_t length, std::size_t n, float* out) {
  const double share = 1 / static_cast<double>(length);
  std::size_t s = 0;
  for (; s + kWide <= n; s += kWide) {
    const Wide sum = *reinterpret_cast<const Wide*>(prefix + s + length) - *reinterpret_cast<const Wide*>(prefix + s);
    *reinterpret_cast<Narrow*>(out + s) = __builtin_convertvector(sum * share, Narrow);
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
  const Narrow zero{};
  std::size_t i = 0;
  for (; i + kWide <= count; i += kWide) {
    const auto narrow = [i](const float* from) __attribute__((always_inline)) {
      return *reinterpret_cast<const Narrow*>(from + i);
    };
    const Wide sum = *reinterpret_cast<const Wide*>(at.at_end + i) - *reinterpret_cast<const Wide*>(at.at_begin + i);
    const Narrow inside = __builtin_convertvector(sum / length, Narrow);
    const Narrow high_before = narrow(at.high_before);
    const Narrow high_after = narrow(at.high_after);
    const Narrow low_before = narrow(at.low_before);
    const Narrow low_after = narrow(at.low_after);
    const Narrow high = high_before < high_after ? high_after : high_before;
    const Narrow low = low_after < low_before ? low_after : low_before;
    const Narrow above = inside - high;
    const Narrow below = low - inside;
    Narrow far = above < below ? below : above;
    far = zero < far ? far : zero;
    far = high < low ? zero : far;  // no reference mean is left
    *reinterpret_cast<Narrow*>(out + i) = far / noise;
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
  Narrow highest = Narrow{} + high;
  Narrow lowest = Narrow{} + low;
  std::size_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    const Narrow v = *reinterpret_cast<const Narrow*>(values + i);
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

void take_every(std::span<const double> from, std::size_t first, std::size_t step, std::size_t count,
                std::vector<double>& out) {
  out.resize(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = from[first + i * step];
}

}  // namespace

SeriesScan::SeriesScan(std::span<const float> scores, double variance, double hold, std::size_t reference_length) {
  assign(scores, variance, hold);
  set_reference_length(reference_length);
}

void SeriesScan::assign(std::span<const float> scores, double variance, double hold) {
  samples_ = scores.size();
  variance_ = variance * hold;
  prefix_.resize(samples_ + 1);
  double sum = 0;
  for (std::size_t t = 0; t < samples_; ++t) prefix_[t + 1] = sum += scores[t];
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
  if (before_.step == step && before_.phase == phase) return;
  const std::size_t n = reference_means_.size();
  const std::size_t count = samples_ / step + 2;
  before_.step = step;
  before_.phase = phase;
  before_.high.assign(count, -INFINITY);
  before_.low.assign(count, INFINITY);
  float high = -INFINITY;
  float low = INFINITY;
  std::size_t s = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i * step + phase < reference_length_) continue;
    const std::size_t last = std::min(n, i * step + phase - reference_length_ + 1);
    float most = -INFINITY;  // largest new one: short chains of comparisons run beside each other
    float least = INFINITY;
    for (; s < last; ++s) {
      most = std::max(most, reference_means_[s]);
      least = std::min(least, reference_means_[s]);
    }
    before_.high[i] = high = std::max(high, most);
    before_.low[i] = low = std::min(low, least);
  }
}

/// Entry k: of the means that begin at or after k * step + phase.
void SeriesScan::extremes_after(std::size_t phase, std::size_t step) {
  if (after_.step == step && after_.phase == phase) return;
  const std::size_t n = reference_means_.size();
  const std::size_t count = samples_ / step + 2;
  after_.step = step;
  after_.phase = phase;
  after_.high.assign(count, -INFINITY);
  after_.low.assign(count, INFINITY);
  float high = -INFINITY;
  float low = INFINITY;
  std::size_t end = n;
  for (std::size_t k = n <= phase ? 0 : (n - phase - 1) / step + 1; k-- > 0;) {
    const std::size_t first = k * step + phase;
    float most = -INFINITY;
    float least = INFINITY;
    for (std::size_t s = first; s < end; ++s) {
      most = std::max(most, reference_means_[s]);
      least = std::min(least, reference_means_[s]);
    }
    end = first;
    after_.high[k] = high = std::max(high, most);
    after_.low[k] = low = std::min(low, least);
  }
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

double SeriesScan::z(std::size_t begin, std::size_t end) const {
  const std::size_t reference = std::min(reference_length_, end - begin);
  double sum = 0;
  double squares = 0;
  double n = 0;
  for (std::size_t s = 0; s + reference <= samples_; ++s) {
    if (s + reference > begin && s < end) continue;
    const double m = mean(s, s + reference);
    sum += m;
    squares += m * m;
    n += 1;
  }
  if (n == 0 || variance_ <= 0) return 0;
  const double center = sum / n;
  const double spread = std::max(0.0, squares / n - center * center);
  const auto length = static_cast<double>(end - begin);
  return (mean(begin, end) - center) / std::sqrt(spread * static_cast<double>(reference) / length + variance_ / length);
}

}  // namespace reveal
