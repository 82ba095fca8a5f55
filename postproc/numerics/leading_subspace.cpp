#include "postproc/numerics/leading_subspace.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace reveal {

namespace {

constexpr Eigen::Index kSmall = 100;  // up to this size all eigenvectors are as fast
/// The least gap between kept and dropped eigenvalues, as a part of the largest one. Between closer ones the cut is
/// arbitrary; the full solver makes it.
constexpr double kClearCut = 1e-7;
constexpr int kIterations = 2;

struct Tridiagonal {
  Eigen::VectorXd diagonal;
  Eigen::VectorXd sub;
};

/// LU of T - shift with row exchanges, made for one shift and used for several right sides.
class ShiftedSolver {
 public:
  ShiftedSolver(const Tridiagonal& t, double shift, double tiny)
      : first_(t.diagonal.array() - shift),
        second_(t.diagonal.size()),
        third_(t.diagonal.size()),
        factor_(t.diagonal.size()),
        swapped_(static_cast<std::size_t>(t.diagonal.size())) {
    const Eigen::Index n = first_.size();
    second_.setZero();
    third_.setZero();
    second_.head(n - 1) = t.sub;
    for (Eigen::Index i = 0; i + 1 < n; ++i) {
      const double below = t.sub[i];
      const bool swap = std::abs(below) > std::abs(first_[i]);
      swapped_[static_cast<std::size_t>(i)] = swap;
      if (!swap) {
        if (std::abs(first_[i]) < tiny) first_[i] = tiny;
        factor_[i] = below / first_[i];
        first_[i + 1] -= factor_[i] * second_[i];
        continue;
      }
      factor_[i] = first_[i] / below;
      first_[i] = below;
      const double next = first_[i + 1];
      first_[i + 1] = second_[i] - factor_[i] * next;
      second_[i] = next;
      third_[i] = second_[i + 1];
      second_[i + 1] *= -factor_[i];
    }
    if (std::abs(first_[n - 1]) < tiny) first_[n - 1] = tiny;
  }

  void solve(Eigen::Ref<Eigen::VectorXd> x) const {
    const Eigen::Index n = first_.size();
    for (Eigen::Index i = 0; i + 1 < n; ++i) {
      if (swapped_[static_cast<std::size_t>(i)]) std::swap(x[i], x[i + 1]);
      x[i + 1] -= factor_[i] * x[i];
    }
    for (Eigen::Index i = n - 1; i >= 0; --i) {
      if (i + 1 < n) x[i] -= second_[i] * x[i + 1];
      if (i + 2 < n) x[i] -= third_[i] * x[i + 2];
      x[i] /= first_[i];
    }
  }

 private:
  Eigen::VectorXd first_, second_, third_;  // the upper triangle's diagonals
  Eigen::VectorXd factor_;
  std::vector<bool> swapped_;
};

/// Orthonormal vectors that span the space of the given eigenvalues, by inverse iteration from random vectors.
Eigen::MatrixXd spanning(const Tridiagonal& t, const Eigen::VectorXd& values, double largest) {
  const Eigen::Index n = t.diagonal.size();
  const double tiny = std::numeric_limits<double>::epsilon() * largest;
  std::mt19937_64 engine(1);  // any start will do, always the same one
  Eigen::MatrixXd vectors(n, values.size());
  for (double& v : vectors.reshaped()) v = static_cast<double>(engine() >> 11U) * 0x1.0p-52 - 1;
  for (Eigen::Index j = 0; j < values.size(); ++j) {
    const ShiftedSolver solver(t, values[j], tiny);
    for (int i = 0; i < kIterations; ++i) {
      solver.solve(vectors.col(j));
      vectors.col(j).normalize();
    }
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(vectors);
  return qr.householderQ() * Eigen::MatrixXd::Identity(n, values.size());
}

Eigen::VectorXd by_all_vectors(const Eigen::MatrixXd& matrix,
                               const std::function<Eigen::Index(const Eigen::VectorXd&)>& count) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(matrix);
  const Eigen::Index k = count(solved.eigenvalues().reverse());
  return solved.eigenvectors().rightCols(k).array().square().rowwise().sum();
}

}  // namespace

Eigen::VectorXd leading_subspace(const Eigen::MatrixXd& matrix,
                                 const std::function<Eigen::Index(const Eigen::VectorXd&)>& count) {
  const Eigen::Index n = matrix.rows();
  if (n <= kSmall) return by_all_vectors(matrix, count);
  const Eigen::Tridiagonalization<Eigen::MatrixXd> reduced(matrix);
  const Tridiagonal t{reduced.diagonal(), reduced.subDiagonal()};
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  solver.computeFromTridiagonal(t.diagonal, t.sub, Eigen::EigenvaluesOnly);
  const Eigen::VectorXd rising = solver.eigenvalues();
  const Eigen::Index k = count(rising.reverse());
  if (k == 0) return Eigen::VectorXd::Zero(n);
  if (k == n) return Eigen::VectorXd::Ones(n);
  const double largest = rising[n - 1];
  if (rising[n - k] - rising[n - k - 1] < kClearCut * largest) return by_all_vectors(matrix, count);
  const bool rest = n - k < k;  // a row of all eigenvectors has length 1
  const Eigen::MatrixXd vectors = spanning(t, rest ? rising.head(n - k) : rising.tail(k), largest);
  const Eigen::VectorXd squares = (reduced.matrixQ() * vectors).array().square().rowwise().sum();
  return rest ? Eigen::VectorXd(1 - squares.array()) : squares;
}

}  // namespace reveal
