#include "postproc/numerics/periodicity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "postproc/numerics/median.h"

namespace reveal {
namespace {

constexpr std::size_t kLongestWindow = 3000;  // samples: 5 minutes of 10 Hz
constexpr std::size_t kShortestWindow = 200;
constexpr std::size_t kLeastWindows = 4;  // one alone may look like a rhythm by chance
constexpr std::size_t kMostWindows = 16;
constexpr std::size_t kLeastPeriods = 4;   // in a window
constexpr double kShortest = 5;            // samples: a shorter period may be one of another frequency (aliasing)
constexpr double kLeastCorrelation = 0.3;  // one period later
constexpr double kAsGood = 0.85;  // share of the best: the shortest such distance is the period, no multiple of it
constexpr double kLeastAmplitude = 0.1;  // standard deviation, against the mean of the series
constexpr double kFarOut = 4;            // spreads: a checkpoint is no part of the rhythm
constexpr double kAgree = 0.1;           // difference of two periods
constexpr double kMostAgree = 0.6;       // share of the windows
constexpr double kMostUnknown = 0.05;

/// Deviations from a straight line, without outliers; empty if it is not worth a look.
std::vector<double> deviations(std::span<const double> window) {
  const auto count = static_cast<double>(window.size());
  std::vector<double> known;
  known.reserve(window.size());
  double mean = 0;
  double middle = 0;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (std::isnan(window[i])) continue;
    known.push_back(window[i]);
    mean += window[i];
    middle += static_cast<double>(i);
  }
  if (static_cast<double>(known.size()) < (1 - kMostUnknown) * count) return {};
  mean /= static_cast<double>(known.size());
  middle /= static_cast<double>(known.size());
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (std::isnan(window[i])) continue;
    const double place = static_cast<double>(i) - middle;
    products += place * (window[i] - mean);
    squares += place * place;
  }
  const double slope = products / squares;
  std::vector<double> rest(window.size(), 0.0);
  std::vector<double> distances;
  distances.reserve(window.size());
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (!std::isnan(window[i])) rest[i] = window[i] - mean - slope * (static_cast<double>(i) - middle);
    distances.push_back(std::abs(rest[i]));
  }
  const double most = kFarOut * kSpreadOverMad * median_of(std::move(distances));
  double power = 0;
  for (double& value : rest) {
    if (most > 0) value = std::clamp(value, -most, most);
    power += value * value;
  }
  const bool large = power > 0 && std::sqrt(power / count) >= kLeastAmplitude * std::abs(mean);
  return large ? rest : std::vector<double>();
}

double correlation(std::span<const double> values, std::size_t lag, double power) {
  double sum = 0;
  for (std::size_t i = 0; i + lag < values.size(); ++i) sum += values[i] * values[i + lag];
  const auto whole = static_cast<double>(values.size());
  return sum / power * whole / (whole - static_cast<double>(lag));
}

/// The top of the parabola through three neighbours.
double between(const std::vector<double>& at, std::size_t top) {
  const double left = at[top - 1];
  const double right = at[top + 1];
  const double bend = left - 2 * at[top] + right;
  return static_cast<double>(top) + (bend < 0 ? 0.5 * (left - right) / bend : 0);
}

bool is_top(const std::vector<double>& at, std::size_t lag) {
  return at[lag] >= at[lag - 1] && at[lag] >= at[lag + 1];
}

/// The first distance that is about as good as the best, behind the first one at which the series is unlike itself.
std::size_t first_top(const std::vector<double>& at) {
  std::size_t begin = 1;
  while (begin < at.size() && at[begin] > 0) ++begin;
  double best = kLeastCorrelation / kAsGood;
  for (std::size_t lag = begin; lag + 1 < at.size(); ++lag) {
    if (is_top(at, lag)) best = std::max(best, at[lag]);
  }
  for (std::size_t lag = std::max<std::size_t>(begin, 1); lag + 1 < at.size(); ++lag) {
    if (is_top(at, lag) && at[lag] >= kAsGood * best) return lag;
  }
  return 0;
}

/// Several periods later the distance is as many times more precise.
double refined(const std::vector<double>& at, double period) {
  for (double times = 2; times * period + period / 4 + 1 < static_cast<double>(at.size()); times *= 2) {
    const auto begin = static_cast<std::size_t>(times * period - period / 4);
    const auto end = static_cast<std::size_t>(std::ceil(times * period + period / 4));
    const auto top = static_cast<std::size_t>(std::max_element(at.begin() + static_cast<std::ptrdiff_t>(begin),
                                                               at.begin() + static_cast<std::ptrdiff_t>(end) + 1) -
                                              at.begin());
    if (top <= begin || top >= end || at[top] < kLeastCorrelation) break;
    period = between(at, top) / times;
  }
  return period;
}

struct Look {
  double period = 0, strength = 0;
};

std::optional<Look> look_at(std::span<const double> window) {
  const std::vector<double> rest = deviations(window);
  if (rest.empty()) return std::nullopt;
  double power = 0;
  for (const double value : rest) power += value * value;
  std::vector<double> at(rest.size() / 2);
  for (std::size_t lag = 0; lag < at.size(); ++lag) at[lag] = correlation(rest, lag, power);
  const std::size_t top = first_top(at);
  if (top == 0 || top > rest.size() / kLeastPeriods) return std::nullopt;
  const double period = refined(at, between(at, top));
  if (period < kShortest) return std::nullopt;
  return Look{period, at[top]};
}

}  // namespace

std::optional<Periodicity> periodicity_of(std::span<const double> series) {
  const std::size_t length = std::min(kLongestWindow, series.size() / kLeastWindows);
  if (length < kShortestWindow) return std::nullopt;
  const std::size_t windows = std::min(kMostWindows, series.size() / length);
  const std::size_t apart = (series.size() - length) / (windows - 1);
  std::vector<double> periods;
  std::vector<double> strengths;
  for (std::size_t i = 0; i < windows; ++i) {
    const auto look = look_at(series.subspan(i * apart, length));
    if (!look) continue;
    periods.push_back(look->period);
    strengths.push_back(look->strength);
  }
  if (periods.empty()) return std::nullopt;
  const double middle = median_of(periods);
  std::erase_if(periods, [middle](double period) { return std::abs(period - middle) > kAgree * middle; });
  const auto agree = static_cast<double>(periods.size());
  if (agree < kMostAgree * static_cast<double>(windows)) return std::nullopt;
  double mean = 0;
  for (const double period : periods) mean += period / agree;
  double squares = 0;
  for (const double period : periods) squares += (period - mean) * (period - mean);
  // A look is no more precise than a sample over the repetitions in it.
  const double of_sample = mean / static_cast<double>(length);
  return Periodicity{.length = mean,
                     .error = std::max(std::sqrt(squares / (agree - 1)), of_sample) / std::sqrt(agree),
                     .strength = median_of(strengths),
                     .windows = agree / static_cast<double>(windows)};
}

}  // namespace reveal
