// The middle of a few values, which a few wild ones among them do not move.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace reveal {

/// Returns the median of the values that are not NaN; NaN if there is none.
[[nodiscard]] double median_of(std::vector<double> values);
/// The median of ascending values without one `value` of them; NaN leaves out none.
[[nodiscard]] double median_without(const std::vector<double>& ascending, double value);

/// Returns the median; of an even number of values, the upper of the two in the middle: always one of the values
/// themselves. Reorders them; needs at least one, and no NaN.
template <typename Number>
[[nodiscard]] Number upper_median(std::span<Number> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace reveal
