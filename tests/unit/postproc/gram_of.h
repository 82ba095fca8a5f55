// A matrix of noise, and inner products by the class under test.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <random>
#include <span>

#include "postproc/numerics/gram.h"

namespace reveal::tests {

inline Eigen::MatrixXd noise(Eigen::Index rows, Eigen::Index columns) {
  std::mt19937_64 engine(3);
  Eigen::MatrixXd x(rows, columns);
  for (double& v : x.reshaped()) v = static_cast<double>(engine() % 2001) / 1000 - 1;
  return x;
}

inline Eigen::MatrixXd gram_of(const Eigen::MatrixXd& x) {
  Gram gram(static_cast<std::size_t>(x.rows()));
  for (Eigen::Index c = 0; c < x.cols(); ++c) {
    gram.add(std::span<const double>(x.col(c).data(), static_cast<std::size_t>(x.rows())));
  }
  return gram.take();
}

}  // namespace reveal::tests
