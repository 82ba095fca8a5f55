#include "postproc/numerics/median.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace reveal {

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double median_without(const std::vector<double>& ascending, double value) {
  const auto place = std::isnan(value) ? ascending.end() : std::lower_bound(ascending.begin(), ascending.end(), value);
  const auto gap = static_cast<std::size_t>(place - ascending.begin());
  const std::size_t count = ascending.size() - (place == ascending.end() ? 0 : 1);
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto at = [&](std::size_t i) { return ascending[i < gap ? i : i + 1]; };
  return count % 2 == 1 ? at(count / 2) : (at(count / 2 - 1) + at(count / 2)) / 2;
}

}  // namespace reveal
