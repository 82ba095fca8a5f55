// How many principal components the ensemble's Isolation Forest splits on.
#pragma once

#include <Eigen/Core>

namespace reveal {

inline constexpr Eigen::Index kForestComponents = 20;

}  // namespace reveal
