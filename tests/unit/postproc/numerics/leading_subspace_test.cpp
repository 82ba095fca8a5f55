#include "postproc/numerics/leading_subspace.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <random>

namespace reveal::tests::leading_subspace_test {
namespace {

Eigen::MatrixXd gram(Eigen::Index n, Eigen::Index rank, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, 1);
  Eigen::MatrixXd x(n, rank);
  for (double& value : x.reshaped()) value = normal(engine);
  for (Eigen::Index c = 0; c < rank; ++c) x.col(c) *= 1 + 30.0 / static_cast<double>(1 + c);
  x.row(n - 1) = x.row(0);  // a window twice
  return x * x.transpose();
}

/// Squared row lengths from all eigenvectors.
Eigen::VectorXd reference(const Eigen::MatrixXd& matrix, Eigen::Index count) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(matrix);
  return solved.eigenvectors().rightCols(count).array().square().rowwise().sum();
}

TEST(LeadingSubspace, EqualsAllEigenvectorsOnEitherSideOfTheCut) {
  const Eigen::MatrixXd matrix = gram(160, 500, 1);
  for (const Eigen::Index count : {1, 7, 79, 80, 120, 158, 160}) {
    const auto result = leading_subspace(matrix, [count](const Eigen::VectorXd&) { return count; });
    EXPECT_LT((result - reference(matrix, count)).cwiseAbs().maxCoeff(), 1e-10) << count;
  }
}

TEST(LeadingSubspace, LeavesOutASpaceOfManyEqualEigenvalues) {
  const Eigen::MatrixXd matrix = gram(150, 100, 2);  // fifty zeros
  const auto result = leading_subspace(matrix, [](const Eigen::VectorXd& falling) {
    EXPECT_GT(falling[98], falling[99]);
    return Eigen::Index{99};
  });
  EXPECT_LT((result - reference(matrix, 99)).cwiseAbs().maxCoeff(), 1e-10);
}

TEST(LeadingSubspace, SaysNothingOfAnEmptyChoice) {
  EXPECT_EQ(leading_subspace(gram(120, 200, 3), [](const Eigen::VectorXd&) { return Eigen::Index{0}; }).norm(), 0);
}

}  // namespace
}  // namespace reveal::tests::leading_subspace_test
