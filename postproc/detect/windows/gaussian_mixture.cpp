#include "postproc/detect/windows/gaussian_mixture.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "postproc/detect/windows/window_detector.h"

namespace reveal {

namespace {

constexpr std::size_t kParts = 4;
constexpr Eigen::Index kComponents = 10;
constexpr int kMaxRounds = 100;
constexpr double kConverged = 1e-3;  // of the mean log density, as scikit-learn

/// Far apart: the next one is drawn with the square of its distance to the nearest so far.
std::vector<Eigen::Index> distant_rows(const Eigen::MatrixXd& rows, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto uniform = [&] { return static_cast<double>(engine() >> 11U) * 0x1.0p-53; };
  const auto last = rows.rows() - 1;
  std::vector<Eigen::Index> chosen{
      std::min(last, static_cast<Eigen::Index>(uniform() * static_cast<double>(rows.rows())))};
  Eigen::VectorXd nearest = Eigen::VectorXd::Constant(rows.rows(), std::numeric_limits<double>::max());
  while (chosen.size() < count) {
    nearest = nearest.cwiseMin((rows.rowwise() - rows.row(chosen.back())).rowwise().squaredNorm());
    double left = uniform() * nearest.sum();
    Eigen::Index next = 0;
    while (next < last && (left -= nearest[next]) > 0) ++next;
    chosen.push_back(next);
  }
  return chosen;
}

/// [row, part]: log of weight times density.
Eigen::MatrixXd log_joint(const GaussianMixture& mixture, const Eigen::MatrixXd& rows) {
  Eigen::MatrixXd joint(rows.rows(), static_cast<Eigen::Index>(mixture.parts.size()));
  const double constant = 0.5 * static_cast<double>(rows.cols()) * std::log(2 * std::numbers::pi);
  for (std::size_t p = 0; p < mixture.parts.size(); ++p) {
    const GaussianMixture::Part& part = mixture.parts[p];
    Eigen::MatrixXd white = (rows.rowwise() - part.mean.transpose()).transpose();
    part.cholesky.triangularView<Eigen::Lower>().solveInPlace(white);
    const double volume = part.cholesky.diagonal().array().log().sum();
    joint.col(static_cast<Eigen::Index>(p)) =
        (part.log_weight - constant - volume - 0.5 * white.colwise().squaredNorm().transpose().array()).matrix();
  }
  return joint;
}

Eigen::VectorXd log_sum(const Eigen::MatrixXd& joint) {
  const Eigen::VectorXd largest = joint.rowwise().maxCoeff();
  return largest.array() + (joint.colwise() - largest).array().exp().rowwise().sum().log();
}

/// Parts from responsibilities [row, part].
void maximise(GaussianMixture& mixture, const Eigen::MatrixXd& rows, const Eigen::MatrixXd& share, double floor) {
  for (std::size_t p = 0; p < mixture.parts.size(); ++p) {
    const auto mine = share.col(static_cast<Eigen::Index>(p));
    const double weight = mine.sum() + 10 * std::numeric_limits<double>::epsilon();
    GaussianMixture::Part& part = mixture.parts[p];
    part.log_weight = std::log(weight / static_cast<double>(rows.rows()));
    part.mean = rows.transpose() * mine / weight;
    const Eigen::MatrixXd centered = rows.rowwise() - part.mean.transpose();
    Eigen::MatrixXd covariance = centered.transpose() * mine.asDiagonal() * centered / weight;
    covariance.diagonal().array() += floor;
    part.cholesky = covariance.llt().matrixL();
  }
}

std::vector<double> mixture_detector(const RobustWindows& windows, std::uint64_t seed) {
  const Eigen::MatrixXd& all = windows.components.coordinates;
  std::vector<double> score(windows.windows);
  if (all.cols() == 0 || windows.windows < 2 * kParts) return score;
  const Eigen::MatrixXd rows = all.leftCols(std::min(kComponents, all.cols()));
  score = GaussianMixture::fit(rows, kParts, seed).log_density(rows);
  for (double& v : score) v = -v;
  return smooth(standing(std::move(score)));
}

const RegisteredWindowDetector kGaussianMixture{
    5, {"GMM", "unlikely under four normal distributions of 10 principal components", 0, 0, false, mixture_detector}};

}  // namespace

GaussianMixture GaussianMixture::fit(const Eigen::MatrixXd& rows, std::size_t parts, std::uint64_t seed, double floor) {
  GaussianMixture mixture;
  parts = std::min(parts, static_cast<std::size_t>(rows.rows()));
  mixture.parts.resize(parts);
  if (parts == 0) return mixture;
  const std::vector<Eigen::Index> centres = distant_rows(rows, parts, seed);
  Eigen::MatrixXd share = Eigen::MatrixXd::Zero(rows.rows(), static_cast<Eigen::Index>(parts));
  for (Eigen::Index r = 0; r < rows.rows(); ++r) {
    Eigen::Index nearest = 0;
    double least = std::numeric_limits<double>::max();
    for (std::size_t p = 0; p < parts; ++p) {
      const double square = (rows.row(r) - rows.row(centres[p])).squaredNorm();
      if (square >= least) continue;
      least = square;
      nearest = static_cast<Eigen::Index>(p);
    }
    share(r, nearest) = 1;
  }
  double before = -std::numeric_limits<double>::max();
  for (int round = 0; round < kMaxRounds; ++round) {
    maximise(mixture, rows, share, floor);
    const Eigen::MatrixXd joint = log_joint(mixture, rows);
    const Eigen::VectorXd density = log_sum(joint);
    const double mean = density.mean();
    if (std::abs(mean - before) < kConverged) break;
    before = mean;
    share = (joint.colwise() - density).array().exp();
  }
  return mixture;
}

std::vector<double> GaussianMixture::log_density(const Eigen::MatrixXd& rows) const {
  std::vector<double> result(static_cast<std::size_t>(rows.rows()));
  if (parts.empty()) return result;
  Eigen::Map<Eigen::VectorXd>(result.data(), rows.rows()) = log_sum(log_joint(*this, rows));
  return result;
}

}  // namespace reveal
