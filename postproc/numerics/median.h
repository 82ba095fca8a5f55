// The middle of a few values, which a few wild ones among them do not move.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace reveal {

/// Of those that are there; NaN if none is.
[[nodiscard]] double median_of(std::vector<double> values);

/// Of an even number the upper of the two in the middle: always one of the values themselves. Reorders them; at least
/// one, and no NaN.
template <typename Number>
[[nodiscard]] Number upper_median(std::span<Number> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace reveal
