#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace reveal {

/// numpy.percentile (linear interpolation), 0 <= percent <= 100; NaN where there is no value.
[[nodiscard]] double percentile(std::vector<double> values, double percent);

/// Returns the value of a rank, 0 for the smallest. Reorders the values; needs more than `rank`, and no NaN.
template <typename Number>
[[nodiscard]] Number ranked(std::span<Number> values, std::size_t rank) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// numpy.percentile with method "lower", always one of the values themselves. Reorders them; needs at least one, and no
/// NaN.
[[nodiscard]] double lower_percentile(std::span<double> values, double percent);

/// The value of the rank that is nearest to a quantile, 0 to 1. Reorders them; needs at least one, and no NaN.
[[nodiscard]] double at_quantile(std::span<double> values, double quantile);

}  // namespace reveal
