#include "postproc/numerics/gaussian_mixture.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace reveal {

namespace {

constexpr int kMostIterations = 40;
constexpr double kSettled = 1e-3;          // change of the mean log density, as in scikit-learn
constexpr double kLeastOfVariance = 1e-6;  // share of the largest variance: the variance of a constant column

Eigen::VectorXd log_sum(const Eigen::MatrixXd& joint) {
  const Eigen::VectorXd largest = joint.rowwise().maxCoeff();
  return largest.array() + (joint.colwise() - largest).array().exp().rowwise().sum().log();
}

/// Variances that no part falls short of by much, whatever few rows it is left with.
Eigen::VectorXd variances_of(const Eigen::MatrixXd& rows) {
  const Eigen::MatrixXd centered = rows.rowwise() - rows.colwise().mean();
  const Eigen::VectorXd variances = centered.colwise().squaredNorm().transpose() / static_cast<double>(rows.rows());
  const double largest = variances.maxCoeff();
  return variances.cwiseMax(largest > 0 ? kLeastOfVariance * largest : 1);
}

/// Where parts begin, as in global k-means (Likas, Vlassis, Verbeek, Pattern Recognition 36:451, 2003): the next one is
/// the row that brings all rows together nearest to a centre, so an outlier is none.
class Centres {
 public:
  explicit Centres(const Eigen::MatrixXd& rows) : squares_(rows.rows(), rows.rows()) {
    const Eigen::VectorXd lengths = rows.rowwise().squaredNorm();
    squares_.noalias() = -2 * rows * rows.transpose();
    squares_.colwise() += lengths;
    squares_.rowwise() += lengths.transpose();
    squares_ = squares_.cwiseMax(0);
    nearest_ = Eigen::VectorXd::Constant(rows.rows(), std::numeric_limits<double>::max());
    centre_of_ = Eigen::VectorXi::Zero(rows.rows());
  }

  void add() {
    Eigen::Index best = 0;
    double least = std::numeric_limits<double>::max();
    for (Eigen::Index row = 0; row < squares_.cols(); ++row) {
      const double left = squares_.col(row).cwiseMin(nearest_).sum();
      if (left >= least) continue;
      least = left;
      best = row;
    }
    for (Eigen::Index row = 0; row < squares_.cols(); ++row) {
      if (squares_(row, best) >= nearest_[row]) continue;
      nearest_[row] = squares_(row, best);
      centre_of_[row] = count_;
    }
    ++count_;
  }

  /// [row, centre]: 1 for the nearest.
  [[nodiscard]] Eigen::MatrixXd shares() const {
    Eigen::MatrixXd shares = Eigen::MatrixXd::Zero(squares_.cols(), count_);
    for (Eigen::Index row = 0; row < squares_.cols(); ++row) shares(row, centre_of_[row]) = 1;
    return shares;
  }

 private:
  Eigen::MatrixXd squares_;  // squared distance of each pair
  Eigen::VectorXd nearest_;
  Eigen::VectorXi centre_of_;
  int count_ = 0;
};

/// Parts from shares [row, part]. Each covariance is drawn towards `variances` as if d + 2 more observations had shown
/// them, less the more parts divide the space (Fraley, Raftery, Journal of Classification 24:155, 2007): no part
/// collapses.
void maximise(GaussianMixture& mixture, const Eigen::MatrixXd& rows, const Eigen::MatrixXd& shares,
              const Eigen::VectorXd& variances, double independent) {
  const auto dimensions = static_cast<double>(rows.cols());
  const double prior = (dimensions + 2) / independent;
  const double divided = std::pow(static_cast<double>(shares.cols()), 2 / dimensions);
  mixture.parts.resize(static_cast<std::size_t>(shares.cols()));
  for (Eigen::Index p = 0; p < shares.cols(); ++p) {
    GaussianMixture::Part& part = mixture.parts[static_cast<std::size_t>(p)];
    const double weight = std::max(shares.col(p).sum(), std::numeric_limits<double>::min());
    part.log_weight = std::log(weight / static_cast<double>(rows.rows()));
    part.mean = rows.transpose() * shares.col(p) / weight;
    const Eigen::MatrixXd centered = rows.rowwise() - part.mean.transpose();
    const Eigen::MatrixXd weighted = centered.array().colwise() * shares.col(p).array();
    Eigen::MatrixXd covariance = centered.transpose() * weighted;
    covariance.diagonal() += prior / divided * variances;
    part.cholesky = (covariance / (prior + weight)).llt().matrixL();
  }
  mixture.rounds += mixture.parts.size();
}

GaussianMixture fit_parts(const Eigen::MatrixXd& rows, Eigen::MatrixXd shares, const Eigen::VectorXd& variances,
                          double independent) {
  GaussianMixture mixture;
  double mean = -std::numeric_limits<double>::max();
  for (int iteration = 0; iteration < kMostIterations; ++iteration) {
    maximise(mixture, rows, shares, variances, independent);
    const Eigen::MatrixXd joint = mixture.log_joint(rows);
    const Eigen::VectorXd density = log_sum(joint);
    const double before = std::exchange(mean, density.mean());
    if (std::abs(mean - before) < kSettled) break;
    shares = (joint.colwise() - density).array().exp();
  }
  const auto d = static_cast<double>(rows.cols());
  const double free = static_cast<double>(mixture.parts.size()) * (1 + d + d * (d + 1) / 2) - 1;
  const double observations = independent * static_cast<double>(rows.rows());
  mixture.bic = free * std::log(std::max(1.0, observations)) - 2 * observations * mean;
  return mixture;
}

}  // namespace

GaussianMixture GaussianMixture::fit(const Eigen::MatrixXd& rows, std::size_t most_parts, double independent) {
  GaussianMixture best;
  if (rows.size() == 0) return best;
  const Eigen::VectorXd variances = variances_of(rows);
  const double observations = independent * static_cast<double>(rows.rows());
  // A few rows do not make a part of their own: their mean and covariance would be theirs alone.
  const auto least = static_cast<double>(rows.cols() + 1);
  Centres centres(rows);
  std::size_t rounds = 0;
  for (std::size_t count = 1; count <= most_parts; ++count) {
    if (count > 1 && static_cast<double>(count) * least > observations) break;
    centres.add();
    GaussianMixture mixture = fit_parts(rows, centres.shares(), variances, independent);
    rounds += mixture.rounds;
    const auto is_small = [&](const Part& part) { return std::exp(part.log_weight) * observations < least; };
    if (count > 1 && std::any_of(mixture.parts.begin(), mixture.parts.end(), is_small)) continue;
    if (best.parts.empty() || mixture.bic < best.bic) best = std::move(mixture);
  }
  best.rounds = rounds;
  return best;
}

Eigen::MatrixXd GaussianMixture::log_joint(const Eigen::MatrixXd& rows) const {
  Eigen::MatrixXd joint(rows.rows(), static_cast<Eigen::Index>(parts.size()));
  const double constant = 0.5 * static_cast<double>(rows.cols()) * std::log(2 * std::numbers::pi);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    Eigen::MatrixXd white = (rows.rowwise() - part.mean.transpose()).transpose();
    part.cholesky.triangularView<Eigen::Lower>().solveInPlace(white);
    const double volume = part.cholesky.diagonal().array().log().sum();
    joint.col(static_cast<Eigen::Index>(p)) =
        (part.log_weight - constant - volume - 0.5 * white.colwise().squaredNorm().transpose().array()).matrix();
  }
  return joint;
}

Eigen::VectorXd GaussianMixture::log_density(const Eigen::MatrixXd& rows) const {
  return parts.empty() ? Eigen::VectorXd(Eigen::VectorXd::Zero(rows.rows())) : log_sum(log_joint(rows));
}

}  // namespace reveal
