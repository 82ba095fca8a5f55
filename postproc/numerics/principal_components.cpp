#include "postproc/numerics/principal_components.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <random>
#include <utility>

namespace reveal {

namespace {

constexpr Eigen::Index kExact = 200;      // up to this size a full decomposition is as fast
constexpr Eigen::Index kOversample = 16;  // beyond the requested ones: separates them from the rest sooner
constexpr int kMaxRounds = 30;
constexpr double kConverged = 1e-7;       // share of the largest variance
constexpr double kNumericalRank = 1e-10;  // share of the total

/// The largest `count` eigenpairs of a symmetric positive matrix, falling.
void largest_eigenpairs(const Eigen::MatrixXd& matrix, Eigen::Index count, Eigen::VectorXd& values,
                        Eigen::MatrixXd& vectors) {
  const Eigen::Index n = matrix.rows();
  count = std::min(count, n);
  const Eigen::Index width = count + kOversample;
  if (n <= kExact || 2 * width >= n) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(matrix);
    values = solved.eigenvalues().tail(count).reverse();
    vectors = solved.eigenvectors().rightCols(count).rowwise().reverse();
    return;
  }
  std::mt19937_64 engine(1);  // any start will do, always the same one
  Eigen::MatrixXd basis(n, width);
  for (double& v : basis.reshaped()) v = static_cast<double>(engine() >> 11U) * 0x1.0p-52 - 1;
  const auto orthonormal = [&](const Eigen::MatrixXd& spanning) -> Eigen::MatrixXd {
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(spanning);
    return qr.householderQ() * Eigen::MatrixXd::Identity(n, width);
  };
  basis = orthonormal(matrix * basis);
  Eigen::VectorXd before = Eigen::VectorXd::Zero(count);
  for (int round = 0;; ++round) {
    const Eigen::MatrixXd image = matrix * basis;
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> small(basis.transpose() * image);
    values = small.eigenvalues().tail(count).reverse();
    const bool done = (values - before).cwiseAbs().maxCoeff() <= kConverged * values[0];
    if (done || round == kMaxRounds) {
      vectors = basis * small.eigenvectors().rightCols(count).rowwise().reverse();
      return;
    }
    before = values;
    basis = orthonormal(image);
  }
}

}  // namespace

PrincipalComponents principal_components(const Eigen::MatrixXd& gram, std::vector<Eigen::Index> core,
                                         Eigen::Index count) {
  PrincipalComponents pc{.core = std::move(core)};
  const auto n_core = static_cast<Eigen::Index>(pc.core.size());
  if (n_core < 2) return pc;
  // Rows: all windows, columns: the core's, both around the core's mean in the space of the features.
  Eigen::MatrixXd cross(gram.rows(), n_core);
  for (Eigen::Index c = 0; c < n_core; ++c) cross.col(c) = gram.col(pc.core[static_cast<std::size_t>(c)]);
  const Eigen::VectorXd row_mean = cross.rowwise().mean();
  Eigen::RowVectorXd column_mean = Eigen::RowVectorXd::Zero(n_core);
  for (const Eigen::Index row : pc.core) column_mean += cross.row(row);
  column_mean /= static_cast<double>(n_core);
  const double grand_mean = column_mean.mean();
  cross.colwise() -= row_mean;
  cross.rowwise() -= column_mean;
  cross.array() += grand_mean;

  Eigen::MatrixXd inner(n_core, n_core);
  for (Eigen::Index c = 0; c < n_core; ++c) inner.row(c) = cross.row(pc.core[static_cast<std::size_t>(c)]);
  pc.total_variance = inner.trace() / static_cast<double>(n_core - 1);
  Eigen::VectorXd values;
  Eigen::MatrixXd vectors;
  largest_eigenpairs(inner, std::min(count, n_core - 1), values, vectors);
  Eigen::Index rank = 0;
  while (rank < values.size() && values[rank] > kNumericalRank * inner.trace()) ++rank;
  pc.variances = values.head(rank) / static_cast<double>(n_core - 1);
  pc.core_basis = vectors.leftCols(rank).array().rowwise() / values.head(rank).array().sqrt().transpose();
  pc.coordinates = cross * pc.core_basis;
  return pc;
}

}  // namespace reveal
