// Principal components of windows from their Gram matrix: the space of the features is never entered.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace reveal {

struct PrincipalComponents {
  Eigen::MatrixXd coordinates;  // [window, component], of all windows, around the mean of the core
  Eigen::VectorXd variances;    // variances of the core, falling
  double total_variance = 0;    // variance of the core, all components
  Eigen::MatrixXd core_basis;   // [core window, component]: loadings = centred core features' * core_basis
  std::vector<Eigen::Index> core;
};

/// The largest `count` components of the windows in `core`; all windows are projected on them. Exact for small
/// matrices, by subspace iteration for others, until no variance moves by more than 1e-7 of the largest (or 30 rounds).
[[nodiscard]] PrincipalComponents principal_components(const Eigen::MatrixXd& gram, std::vector<Eigen::Index> core,
                                                       Eigen::Index count);

}  // namespace reveal
