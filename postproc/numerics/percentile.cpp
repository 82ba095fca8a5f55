#include "postproc/numerics/percentile.h"

#include <cmath>
#include <limits>

namespace reveal {

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double position = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

double lower_percentile(std::span<double> values, double percent) {
  return ranked(values, static_cast<std::size_t>(percent / 100 * static_cast<double>(values.size() - 1)));
}

double at_quantile(std::span<double> values, double quantile) {
  return ranked(values, static_cast<std::size_t>(std::lround(quantile * static_cast<double>(values.size() - 1))));
}

}  // namespace reveal
