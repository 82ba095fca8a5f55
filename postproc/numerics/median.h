// The middle of a few values, which a few wild ones among them do not move.
#pragma once

#include <span>
#include <vector>

#include "postproc/numerics/percentile.h"

namespace reveal {

/// Standard deviation of normally distributed values, relative to the median (MAD) and to the mean of their distances
/// from their median.
inline constexpr double kSpreadOverMad = 1.4826;
inline constexpr double kSpreadOverMeanDeviation = 1.2533;

/// Returns the median of the values that are not NaN; NaN if there is none.
[[nodiscard]] double median_of(std::vector<double> values);
/// The median of ascending values without one `value` of them; NaN leaves out none.
[[nodiscard]] double median_without(const std::vector<double>& ascending, double value);

/// Returns the median; of an even number of values, the upper of the two in the middle: always one of the values
/// themselves. Reorders them; needs at least one, and no NaN.
template <typename Number>
[[nodiscard]] Number upper_median(std::span<Number> values) {
  return ranked(values, values.size() / 2);
}

}  // namespace reveal
