// A mixture of normal distributions, fitted by expectation maximisation. BIC decides how many parts it has (Schwarz,
// Annals of Statistics 6:461, 1978). No random numbers: the same rows give the same mixture.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <vector>

namespace reveal {

struct GaussianMixture {
  struct Part {
    double log_weight = 0;
    Eigen::VectorXd mean;
    Eigen::MatrixXd cholesky;  // lower triangle of the covariance
  };
  std::vector<Part> parts;
  double bic = 0;          // the smaller one of two mixtures describes the rows better
  std::size_t rounds = 0;  // parts fitted, over all iterations of all numbers of parts: the cost of the fit

  /// Rows are finite points; the distance of each pair of them is kept meanwhile. Chooses from 1 to `most_parts` parts
  /// the number with the least BIC; no part for no rows. `independent`: the share of rows that are observations of
  /// their own, where rows overlap.
  [[nodiscard]] static GaussianMixture fit(const Eigen::MatrixXd& rows, std::size_t most_parts, double independent = 1);

  /// [row, part]: log of the part's weight times its density.
  [[nodiscard]] Eigen::MatrixXd log_joint(const Eigen::MatrixXd& rows) const;
  /// Returns the logarithm of the density of the mixture at each row.
  [[nodiscard]] Eigen::VectorXd log_density(const Eigen::MatrixXd& rows) const;
};

}  // namespace reveal
