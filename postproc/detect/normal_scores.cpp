#include "postproc/detect/normal_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace reveal {

double normal_quantile(double probability) {
  // P. J. Acklam's rational approximation (relative error 1e-9), then one Halley step against erfc.
  constexpr double kA[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                           1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double kB[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                           -1.328068155288572e+01};
  constexpr double kC[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                           -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double kD[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double kTail = 0.02425;
  const auto tail = [&](double q) {
    return (((((kC[0] * q + kC[1]) * q + kC[2]) * q + kC[3]) * q + kC[4]) * q + kC[5]) /
           ((((kD[0] * q + kD[1]) * q + kD[2]) * q + kD[3]) * q + 1);
  };
  double x = 0;
  if (probability < kTail) {
    x = tail(std::sqrt(-2 * std::log(probability)));
  } else if (probability > 1 - kTail) {
    x = -tail(std::sqrt(-2 * std::log1p(-probability)));
  } else {
    const double q = probability - 0.5;
    const double r = q * q;
    x = (((((kA[0] * r + kA[1]) * r + kA[2]) * r + kA[3]) * r + kA[4]) * r + kA[5]) * q /
        (((((kB[0] * r + kB[1]) * r + kB[2]) * r + kB[3]) * r + kB[4]) * r + 1);
  }
  const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - probability;
  const double u = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - u / (1 + x * u / 2);
}

namespace {

/// Mean ranks are multiples of one half: one table serves every series of the same length.
const std::vector<double>& quantiles_of_half_ranks(std::size_t n) {
  thread_local std::vector<double> table;
  thread_local std::size_t size = 0;
  if (size != n) {
    table.resize(2 * n + 1);
    for (std::size_t twice_rank = 2; twice_rank <= 2 * n; ++twice_rank) {
      table[twice_rank] = normal_quantile((static_cast<double>(twice_rank) / 2 - 0.5) / static_cast<double>(n));
    }
    size = n;
  }
  return table;
}

}  // namespace

RankSummary normal_scores(std::span<const double> values, std::span<float> scores) {
  std::vector<std::pair<double, std::uint32_t>> sorted;
  sorted.reserve(values.size());
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (!std::isnan(values[t])) sorted.emplace_back(values[t], static_cast<std::uint32_t>(t));
  }
  std::fill(scores.begin(), scores.end(), 0.0F);
  const std::size_t n = sorted.size();
  RankSummary summary{.present = n};
  if (n == 0) return summary;
  std::sort(sorted.begin(), sorted.end());

  const double median = n % 2 == 1 ? sorted[n / 2].first : (sorted[n / 2 - 1].first + sorted[n / 2].first) / 2;
  const std::vector<double>& quantiles = quantiles_of_half_ranks(n);
  double sum = 0;
  for (std::size_t first = 0; first < n;) {
    std::size_t last = first + 1;
    while (last < n && sorted[last].first == sorted[first].first) ++last;
    const double score = quantiles[first + 1 + last];  // twice the mean of the ranks first+1 .. last
    for (std::size_t i = first; i < last; ++i) scores[sorted[i].second] = static_cast<float>(score);
    sum += score * static_cast<double>(last - first);
    if (sorted[first].first != median) summary.away_from_median += last - first;
    first = last;
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  for (const auto& [value, t] : sorted) scores[t] -= mean;
  return summary;
}

}  // namespace reveal
