#include "postproc/numerics/running_medians.h"

#include <algorithm>

#include "postproc/numerics/median.h"

namespace reveal {

std::vector<double> running_medians(std::span<const double> values, std::size_t width) {
  std::vector<double> medians(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t begin = i - std::min(i, width / 2);
    const std::size_t end = std::min(values.size(), i + width / 2 + 1);
    const auto around = values.subspan(begin, end - begin);
    medians[i] = median_of({around.begin(), around.end()});
  }
  return medians;
}

}  // namespace reveal
