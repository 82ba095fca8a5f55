// A mixture of normal distributions, fitted by expectation maximisation (the detector of eACGM).
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

namespace reveal {

struct GaussianMixture {
  struct Part {
    double log_weight = 0;
    Eigen::VectorXd mean;
    Eigen::MatrixXd cholesky;  // lower triangle of the covariance
  };
  std::vector<Part> parts;

  /// Rows are points. Starts from rows drawn far apart (k-means++ with the given seed). Every covariance gets `floor`
  /// on its diagonal, so copies of a point do no harm.
  [[nodiscard]] static GaussianMixture fit(const Eigen::MatrixXd& rows, std::size_t parts, std::uint64_t seed,
                                           double floor = 1e-6);
  /// Log density of every row.
  [[nodiscard]] std::vector<double> log_density(const Eigen::MatrixXd& rows) const;
};

}  // namespace reveal
