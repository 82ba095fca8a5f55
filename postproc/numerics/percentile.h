#pragma once

#include <vector>

namespace reveal {

/// numpy.percentile (linear interpolation), 0 <= percent <= 100; NaN where there is no value.
[[nodiscard]] double percentile(std::vector<double> values, double percent);

}  // namespace reveal
