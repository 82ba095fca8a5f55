// The paper's second detector: Mahalanobis distance to the centroid in the principal components that hold 95 % of the
// variance. Works on the smaller of the two Gram matrices, so 600 windows x 4,000 features cost a 600 x 600 problem.
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "postproc/detect/paper/detector.h"
#include "postproc/numerics/gram.h"
#include "postproc/numerics/leading_subspace.h"

namespace reveal {

namespace {

constexpr double kVarianceKept = 0.95;
constexpr double kNumericalRank = 1e-12;

/// sklearn.decomposition.PCA(n_components=0.95): the smallest number of components with more than this share of the
/// variance.
Eigen::Index components(const Eigen::VectorXd& descending) {
  const double total = descending.sum();
  double held = 0;
  Eigen::Index k = 0;
  while (k < descending.size() && held <= kVarianceKept * total && descending[k] > kNumericalRank * total) {
    held += descending[k++];
  }
  return k;
}

std::vector<double> mahalanobis(const Eigen::MatrixXd& z, std::uint64_t /*seed*/) {
  std::vector<double> scores(static_cast<std::size_t>(z.rows()));
  if (z.rows() < 2 || z.cols() == 0) return scores;
  const Eigen::MatrixXd x = z.rowwise() - z.colwise().mean();
  const auto degrees = static_cast<double>(x.rows() - 1);
  Eigen::Map<Eigen::ArrayXd> squares(scores.data(), x.rows());

  const bool wide = x.cols() >= x.rows();
  Gram products(static_cast<std::size_t>(wide ? x.rows() : x.cols()));
  Eigen::VectorXd series;
  for (Eigen::Index i = 0; i < (wide ? x.cols() : x.rows()); ++i) {
    if (wide) {
      series = x.col(i);
    } else {
      series = x.row(i);
    }
    products.add(std::span<const double>(series.data(), static_cast<std::size_t>(series.size())));
  }
  const Eigen::MatrixXd gram = products.take();
  if (wide) {
    // X = U S V': a row's coordinate is U S, its variance S^2 / (n - 1), so only U remains.
    squares = leading_subspace(gram, components).array() * degrees;
  } else {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(gram);
    const Eigen::VectorXd spectrum = solved.eigenvalues().reverse();
    const Eigen::Index k = components(spectrum);
    const auto leading = solved.eigenvectors().rightCols(k).rowwise().reverse();
    const Eigen::ArrayXXd coordinates = (x * leading).array();
    squares = (coordinates.square().rowwise() / (spectrum.head(k).array() / degrees).transpose()).rowwise().sum();
  }
  squares = squares.sqrt();
  return scores;
}

const RegisteredDetector kMahalanobis{
    1,
    {"mahalanobis", Method::paper_mahalanobis,
     "sklearn.decomposition.PCA(n_components=0.95, svd_solver='full', whiten=True)", mahalanobis}};

}  // namespace

}  // namespace reveal
