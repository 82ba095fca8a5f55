#include "postproc/features/channel_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

constexpr std::size_t kShortest = 7;    // length of a window for which all features are defined
constexpr std::size_t kLongest = 1024;  // beyond it a sorting network is slower than a selection
constexpr std::size_t kLags = 5;
constexpr std::size_t kFirstOfTest = 14;  // place in features() of the statistic; its p follows

/// The sums of one pass over four windows; the few divisions and roots per window are done afterwards.
struct Sums {
  Wide mean, minimum, maximum, median, squares, cubes, fourths, covariance, changes, partial_squares;
  Wide lagged[kLags + 1];
  Wide bb, cc, bc, by, cy, yy;  // centred products of the regression behind the ADF statistic
};

/// Batcher's merge exchange (Knuth, TAOCP 5.2.2 M) sorts any n; only the exchanges that reach the middle are kept.
std::vector<std::pair<std::size_t, std::size_t>> exchanges_for_middle(std::size_t n) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  std::size_t top = 1;
  while (2 * top < n) top *= 2;
  for (std::size_t p = top; p > 0; p /= 2) {
    std::size_t q = top;
    std::size_t r = 0;
    std::size_t d = p;
    while (true) {
      for (std::size_t i = 0; i + d < n; ++i) {
        if ((i & p) == r) all.emplace_back(i, i + d);
      }
      if (q == p) break;
      d = q - p;
      q /= 2;
      r = p;
    }
  }
  std::vector<bool> needed(n);
  needed[n / 2] = needed[(n - 1) / 2] = true;
  std::vector<std::pair<std::size_t, std::size_t>> kept;
  for (auto e = all.rbegin(); e != all.rend(); ++e) {
    if (!needed[e->first] && !needed[e->second]) continue;
    needed[e->first] = needed[e->second] = true;
    kept.push_back(*e);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

/// `x`: [sample][lane], sorted towards the middle on return. `d`: scratch for the centred values.
REVEAL_WIDE void sum_up(Wide* x, Wide* d, std::size_t n, const std::pair<std::size_t, std::size_t>* exchange,
                        std::size_t exchanges, UnitRootTest test, Sums& out) {
  const auto count = static_cast<double>(n);
  const Wide first = x[0];
  const Wide zero{};
  Wide distance = zero;
  Wide low = first;
  Wide high = first;
  Wide changes = zero;
  Wide before = first;
  for (std::size_t t = 0; t < n; ++t) {
    const Wide v = x[t];
    distance += v - first;
    low = v < low ? v : low;
    high = v > high ? v : high;
    const Wide step = v - before;
    changes += step < zero ? -step : step;
    before = v;
  }
  const Wide shift = distance / count;
  Wide squares = zero;
  Wide cubes = zero;
  Wide fourths = zero;
  Wide covariance = zero;
  Wide partial = zero;
  Wide partial_squares = zero;
  Wide total = zero;
  for (std::size_t t = 0; t < n; ++t) {
    const Wide c = x[t] - first - shift;
    d[t] = c;
    const Wide c2 = c * c;
    squares += c2;
    cubes += c2 * c;
    fourths += c2 * c2;
    covariance += (static_cast<double>(t) - (count - 1) / 2) * c;
    partial += c;
    partial_squares += partial * partial;
    total += c;
  }
  for (std::size_t lag = 1; lag <= kLags; ++lag) {
    Wide sum = zero;
    for (std::size_t t = lag; t < n; ++t) sum += d[t] * d[t - lag];
    out.lagged[lag] = sum;
  }

  // dx[t] = a + b x[t-1] + c dx[t-1] for t = 2 ... n - 1, all three centred.
  const double m = count - 2;
  const Wide mean_y = (d[n - 1] - d[1]) / m;
  const Wide mean_c = (d[n - 2] - d[0]) / m;
  const Wide mean_b = (total - d[0] - d[n - 1]) / m;
  Wide bb = zero;
  Wide cc = zero;
  Wide bc = zero;
  Wide by = zero;
  Wide cy = zero;
  Wide yy = zero;
  for (std::size_t t = test == UnitRootTest::made ? 2 : n; t < n; ++t) {
    const Wide y = d[t] - d[t - 1] - mean_y;
    const Wide b = d[t - 1] - mean_b;
    const Wide c = d[t - 1] - d[t - 2] - mean_c;
    bb += b * b;
    cc += c * c;
    bc += b * c;
    by += b * y;
    cy += c * y;
    yy += y * y;
  }

  for (std::size_t e = 0; e < exchanges; ++e) {
    const Wide a = x[exchange[e].first];
    const Wide b = x[exchange[e].second];
    x[exchange[e].first] = a < b ? a : b;
    x[exchange[e].second] = a < b ? b : a;
  }
  out.mean = first + shift;
  out.minimum = low;
  out.maximum = high;
  out.median = n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2.0;
  out.squares = squares;
  out.cubes = cubes;
  out.fourths = fourths;
  out.covariance = covariance;
  out.changes = changes / (count - 1);
  out.partial_squares = partial_squares;
  out.bb = bb;
  out.cc = cc;
  out.bc = bc;
  out.by = by;
  out.cy = cy;
  out.yy = yy;
}

double adf_statistic(const Sums& s, unsigned lane, double n) {
  const double bb = s.bb[lane];
  const double cc = s.cc[lane];
  const double bc = s.bc[lane];
  const double determinant = bb * cc - bc * bc;
  if (determinant <= 1e-12 * bb * cc) return kNaN;
  const double beta = (s.by[lane] * cc - s.cy[lane] * bc) / determinant;
  const double gamma = (s.cy[lane] * bb - s.by[lane] * bc) / determinant;
  const double residual = s.yy[lane] - beta * s.by[lane] - gamma * s.cy[lane];
  if (residual <= 1e-12 * s.yy[lane]) return kNaN;
  return beta / std::sqrt(residual / (n - 2 - 3) * cc / determinant);
}

/// One lane's features in the order of features().
std::array<double, kFeatureCount> features_of(const Sums& s, unsigned lane, double n, UnitRootTest test) {
  const double mean = s.mean[lane];
  const double low = s.minimum[lane];
  const double high = s.maximum[lane];
  if (low == high) return {low, 0, 0, low, low, low, 0, 0, 0, 0, kNaN, kNaN, 0, kNaN, kNaN, kNaN};
  const double squares = s.squares[lane];
  const double variance = squares / n;
  const double deviation = std::sqrt(variance);
  const double g1 = s.cubes[lane] / n / (variance * deviation);
  const double g2 = s.fourths[lane] / n / (variance * variance) - 3;
  const double times = n * (n * n - 1) / 12;
  double long_run = squares;
  for (std::size_t lag = 1; lag <= 4; ++lag) long_run += 2 * (1 - static_cast<double>(lag) / 5) * s.lagged[lag][lane];
  const double adf = test == UnitRootTest::made ? adf_statistic(s, lane, n) : kNaN;
  return {mean,
          deviation,
          variance,
          low,
          high,
          s.median[lane],
          g1 * std::sqrt(n * (n - 1)) / (n - 2),
          (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * g2 + 6),
          s.covariance[lane] / times,
          s.covariance[lane] / std::sqrt(times * squares),
          s.lagged[1][lane] / ((n - 1) * variance),
          s.lagged[5][lane] / ((n - 5) * variance),
          s.changes[lane],
          s.partial_squares[lane] / (n * long_run),
          adf,
          test == UnitRootTest::made ? adf_p_value(adf) : kNaN};
}

}  // namespace

ChannelFeatures::ChannelFeatures(const WindowGrid& grid, UnitRootTest test)
    : grid_(grid), test_(test), samples_(grid.length * kWide), centered_(grid.length * kWide) {
  if (grid.length >= kShortest && grid.length <= kLongest) exchanges_ = exchanges_for_middle(grid.length);
}

void ChannelFeatures::compute(std::span<const double> series, std::span<double> out) {
  if (grid_.count == 0) return;
  const auto covered = series.subspan(grid_.begin, grid_.end_sample(grid_.count - 1) - grid_.begin);
  const bool constant = std::all_of(covered.begin(), covered.end(), [&](double v) { return v == covered[0]; });
  if (constant) {
    compute_one(series, 0, out);
    for (std::size_t f = 0; f < kFeatureCount; ++f) {
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(f * grid_.count), grid_.count, out[f * grid_.count]);
    }
    return;
  }
  // Windows without a gap go four at a time, the others one by one.
  const double* first[kWide];
  std::size_t windows[kWide];
  unsigned waiting = 0;
  std::size_t missing_from = grid_.begin;  // samples before it were looked at
  std::size_t whole_from = grid_.begin;    // first sample after the last missing one
  for (std::size_t w = 0; w < grid_.count; ++w) {
    for (; missing_from < grid_.end_sample(w); ++missing_from) {
      if (!std::isfinite(series[missing_from])) whole_from = missing_from + 1;
    }
    if (exchanges_.empty() || whole_from > grid_.first_sample(w)) {
      compute_one(series, w, out);
      continue;
    }
    first[waiting] = series.data() + grid_.first_sample(w);
    windows[waiting++] = w;
    if (waiting == kWide) {
      compute_four(first, windows, out);
      waiting = 0;
    }
  }
  if (waiting == 0) return;
  for (unsigned lane = waiting; lane < kWide; ++lane) {
    first[lane] = first[0];
    windows[lane] = windows[0];
  }
  compute_four(first, windows, out);
}

void ChannelFeatures::compute_one(std::span<const double> series, std::size_t window, std::span<double> out) {
  window_.assign(series.subspan(grid_.first_sample(window), grid_.length));
  const bool known = static_cast<double>(window_.size()) >= (1 - kMaxMissing) * static_cast<double>(grid_.length);
  const std::size_t computed = test_ == UnitRootTest::made ? kFeatureCount : kFirstOfTest;
  for (std::size_t f = 0; f < kFeatureCount; ++f) {
    out[f * grid_.count + window] = known && f < computed ? features()[f].compute(window_) : kNaN;
  }
}

void ChannelFeatures::compute_four(const double* const first[4], const std::size_t windows[4], std::span<double> out) {
  for (std::size_t t = 0; t < grid_.length; ++t) {
    for (unsigned lane = 0; lane < kWide; ++lane) samples_[t * kWide + lane] = first[lane][t];
  }
  Sums sums;
  sum_up(reinterpret_cast<Wide*>(samples_.data()), reinterpret_cast<Wide*>(centered_.data()), grid_.length,
         exchanges_.data(), exchanges_.size(), test_, sums);
  for (unsigned lane = 0; lane < kWide; ++lane) {
    const auto values = features_of(sums, lane, static_cast<double>(grid_.length), test_);
    for (std::size_t f = 0; f < kFeatureCount; ++f) out[f * grid_.count + windows[lane]] = values[f];
  }
}

}  // namespace reveal
