// How much of each coordinate axis lies in the space of the leading eigenvectors of a symmetric positive matrix.
// Cheaper than the vectors: only those of the smaller side of the cut are computed.
#pragma once

#include <Eigen/Core>
#include <functional>

namespace reveal {

/// Squared length of row i of the leading eigenvectors. `count`: how many lead, from the eigenvalues, which fall.
[[nodiscard]] Eigen::VectorXd leading_subspace(const Eigen::MatrixXd& matrix,
                                               const std::function<Eigen::Index(const Eigen::VectorXd&)>& count);

}  // namespace reveal
