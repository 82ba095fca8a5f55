#include "postproc/numerics/mean_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "postproc/numerics/moderated_t.h"

namespace reveal {
namespace {

double squares_around_mean(std::span<const double> values) {
  const double mean = arithmetic_mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return values.empty() ? 0 : sum;
}

double freedom(std::span<const double> values) {
  return values.empty() ? 0 : static_cast<double>(values.size() - 1);
}

/// A sum of squares, and its degrees of freedom.
struct Squares {
  double sum = 0;
  double df = 0;
};

/// By the mean square successive difference (von Neumann et al., Ann. Math. Stat. 12, 1941), with the degrees of
/// freedom of an estimate of its variance.
Squares squares_of_neighbours(std::span<const double> values) {
  if (values.size() < 2) return {};
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (std::size_t i = 1; i < values.size(); ++i) sum += (values[i] - values[i - 1]) * (values[i] - values[i - 1]) / 2;
  const double df = 2 * (count - 1) * (count - 1) / (3 * count - 4);
  return {sum / (count - 1) * df, df};
}

MeanDifference with_standard_error(double difference, double error, double df) {
  if (error <= 0) return {difference, difference, difference, difference == 0 ? 1.0 : 0.0, df};
  const double reach = t_critical(kConfidence, df) * error;
  return {difference, difference - reach, difference + reach, two_sided_p(difference / error, df), df};
}

}  // namespace

double arithmetic_mean(std::span<const double> values) noexcept {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double t_critical(double confidence, double df) {
  double low = 0;
  double high = 1;
  while (two_sided_p(high, df) > 1 - confidence && high < 1e12) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (two_sided_p(middle, df) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

std::optional<MeanDifference> welch_difference(std::span<const double> first, std::span<const double> second,
                                               double least_variance) {
  return welch_difference(first, second, least_variance,
                          {static_cast<double>(first.size()), static_cast<double>(second.size())});
}

std::optional<MeanDifference> welch_difference(std::span<const double> first, std::span<const double> second,
                                               double least_variance, IndependentValues independent) {
  if (first.size() < 2 || second.size() < 2) return std::nullopt;
  const auto squared_error = [&](std::span<const double> values, double count) {
    return std::max(squares_around_mean(values) / freedom(values), least_variance) / count;
  };
  const double a = squared_error(first, independent.first);
  const double b = squared_error(second, independent.second);
  const double df_first = independent.first - 1;
  const double df_second = independent.second - 1;
  // Welch-Satterthwaite.
  const double df = a + b > 0 ? (a + b) * (a + b) / (a * a / df_first + b * b / df_second) : df_first + df_second;
  return with_standard_error(arithmetic_mean(second) - arithmetic_mean(first), std::sqrt(a + b), df);
}

std::optional<MeanDifference> pooled_difference(std::span<const double> first, std::span<const double> second,
                                                std::span<const double> others, double least_variance) {
  const Squares of_others = squares_of_neighbours(others);
  const double df = freedom(first) + freedom(second) + of_others.df;
  if (first.empty() || second.empty() || df < 1) return std::nullopt;
  const double squares = squares_around_mean(first) + squares_around_mean(second) + of_others.sum;
  const double variance = std::max(squares / df, least_variance);
  const double error =
      std::sqrt(variance * (1 / static_cast<double>(first.size()) + 1 / static_cast<double>(second.size())));
  return with_standard_error(arithmetic_mean(second) - arithmetic_mean(first), error, df);
}

std::optional<MeanDifference> paired_difference(std::span<const double> differences) {
  if (differences.size() < 2) return std::nullopt;
  const double df = freedom(differences);
  const double variance = squares_around_mean(differences) / df;
  return with_standard_error(arithmetic_mean(differences),
                             std::sqrt(variance / static_cast<double>(differences.size())), df);
}

}  // namespace reveal
