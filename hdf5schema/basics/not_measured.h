// A double that was not measured.
#pragma once

#include <limits>

namespace reveal {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace reveal
