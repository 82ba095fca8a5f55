// The ensemble's Isolation Forest: as a detector (robust_forest.cpp), and for the attribution of its scores to
// channels.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "postproc/detect/windows/robust_windows.h"
#include "postproc/numerics/isolation_forest.h"

namespace reveal {

/// [window, component]: the values on which it splits. None where no window differs from another.
[[nodiscard]] Eigen::MatrixXd forest_rows(const RobustWindows& windows);
[[nodiscard]] IsolationForest fit_robust_forest(const Eigen::MatrixXd& rows, std::uint64_t seed);

}  // namespace reveal
