// How far two means are apart, with Student's confidence interval: two independent groups of unequal spread (Welch),
// groups that share one spread, and pairs.
#pragma once

#include <optional>
#include <span>

namespace reveal {

inline constexpr double kConfidence = 0.95;

struct MeanDifference {
  double difference = 0;  // the second mean less the first
  double low = 0;         // begin of the interval that holds the true difference with kConfidence
  double high = 0;
  double p = 1;  // probability of a difference at least as large by chance, two-sided
  double df = 0;

  [[nodiscard]] bool significant() const noexcept { return p < 1 - kConfidence; }
  bool operator==(const MeanDifference&) const = default;
};

/// NaN without values.
[[nodiscard]] double arithmetic_mean(std::span<const double> values) noexcept;

/// The t with P(|T| <= t) = confidence, for `df` degrees of freedom.
[[nodiscard]] double t_critical(double confidence, double df);

/// Each group with its own spread; nothing where one has fewer than two values. `least_variance`: of rounding, for
/// values that are equal only because they were rounded.
[[nodiscard]] std::optional<MeanDifference> welch_difference(std::span<const double> first,
                                                             std::span<const double> second, double least_variance = 0);

/// How many independent values say as much as the values of each group, where these resemble their neighbours; each is
/// more than 1.
struct IndependentValues {
  double first = 0;
  double second = 0;
};
[[nodiscard]] std::optional<MeanDifference> welch_difference(std::span<const double> first,
                                                             std::span<const double> second, double least_variance,
                                                             IndependentValues independent);

/// The difference of groups that share one spread; `others`, of the same spread and in the order of time, may help to
/// estimate it: by the differences of neighbours, so that a change of their level counts once. Nothing if the three
/// together are too few for a spread, or if a group is empty.
[[nodiscard]] std::optional<MeanDifference> pooled_difference(std::span<const double> first,
                                                              std::span<const double> second,
                                                              std::span<const double> others = {},
                                                              double least_variance = 0);

/// The mean of differences between the values of a pair; nothing for fewer than two pairs.
[[nodiscard]] std::optional<MeanDifference> paired_difference(std::span<const double> differences);

}  // namespace reveal
