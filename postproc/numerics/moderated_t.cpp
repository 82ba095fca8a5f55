#include "postproc/numerics/moderated_t.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "postproc/numerics/median.h"

namespace reveal {
namespace {

constexpr double kLeastPriorDf = 0.5;
// More than four would trust the common variance more than three neighbours' own, which real channels do not deserve.
constexpr double kMostPriorDf = 4;
constexpr std::size_t kFewVariances = 8;

/// Continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double kPrecision = 1e-12;
  constexpr int kMostTerms = 300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double fraction = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      c = 1 + term / c;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = std::abs(c) < kTiny ? kTiny : c;
      change = d * c;
      fraction *= change;
    }
    if (std::abs(change - 1) < kPrecision) break;
  }
  return fraction;
}

double regularized_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  // The fraction converges quickly on one side of the mean only.
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double trigamma(double x) {
  double sum = 0;
  while (x < 8) {
    sum += 1 / (x * x);
    x += 1;
  }
  const double y = 1 / (x * x);
  return sum + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42));
}

/// x with trigamma(x) = y; trigamma falls from infinity to 0.
double trigamma_inverse(double y) {
  double low = 1e-3;
  double high = 1e4;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (trigamma(middle) > y ? low : high) = middle;
  }
  return low;
}

}  // namespace

double two_sided_p(double t, double df) {
  if (std::isnan(t)) return 1;
  return std::clamp(regularized_beta(df / 2, 0.5, df / (df + t * t)), 0.0, 1.0);
}

double least_moderated(double variance, double variance_df, double least_s2) {
  return std::min(VariancePrior{least_s2, kLeastPriorDf}.moderated(variance, variance_df),
                  VariancePrior{least_s2, kMostPriorDf}.moderated(variance, variance_df));
}

double t_against_median(double effect, double variance, double others, double se2) {
  return effect / std::sqrt(variance * (1 + std::numbers::pi / 2 / others) + se2);
}

VariancePrior variance_prior(std::span<const double> variances, double variance_df, double least_s2) {
  std::vector<double> logs;
  logs.reserve(variances.size());
  for (const double variance : variances) {
    if (variance > 0 && std::isfinite(variance)) logs.push_back(std::log(variance));
  }
  if (logs.size() < kFewVariances) return {least_s2, kLeastPriorDf};
  const double centre = upper_median<double>(logs);
  for (double& value : logs) value = std::abs(value - centre);
  // Robust: the channels of a fault must not make all others look noisy.
  const double spread = kSpreadOverMad * upper_median<double>(logs);
  // Chance alone scatters the log of a sample variance by trigamma(df/2); the rest comes from the channels.
  const double beyond = spread * spread - trigamma(variance_df / 2);
  VariancePrior prior;
  prior.s2 = std::max(std::exp(centre), least_s2);
  prior.df = beyond <= 0 ? kMostPriorDf : std::clamp(2 * trigamma_inverse(beyond), kLeastPriorDf, kMostPriorDf);
  return prior;
}

double discovery_limit(std::vector<double> p, double q, std::size_t all) {
  std::sort(p.begin(), p.end());
  const double tests = static_cast<double>(std::max(p.size(), all));
  for (std::size_t i = p.size(); i-- > 0;) {
    if (p[i] <= q * static_cast<double>(i + 1) / tests) return p[i];
  }
  return -1;
}

}  // namespace reveal
