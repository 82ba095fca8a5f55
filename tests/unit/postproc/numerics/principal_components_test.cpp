#include "postproc/numerics/principal_components.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <vector>

#include "gram_of.h"

namespace reveal::tests::principal_components_test {
namespace {

TEST(PrincipalComponents, OfManyWindowsEqualTheFullDecomposition) {
  Eigen::MatrixXd x = noise(400, 90);
  for (Eigen::Index c = 0; c < 90; ++c) x.col(c) *= 1 + 10.0 / static_cast<double>(1 + c);
  std::vector<Eigen::Index> core;
  for (Eigen::Index r = 0; r < 360; ++r) core.push_back(r);
  const PrincipalComponents pc = principal_components(gram_of(x), core, 12);

  const Eigen::MatrixXd centered = x.rowwise() - x.topRows(360).colwise().mean();
  const Eigen::MatrixXd covariance = centered.topRows(360).transpose() * centered.topRows(360) / 359;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> full(covariance);
  ASSERT_EQ(pc.variances.size(), 12);
  EXPECT_NEAR(pc.total_variance, covariance.trace(), 1e-9);
  for (Eigen::Index k = 0; k < 8; ++k) {
    EXPECT_NEAR(pc.variances[k], full.eigenvalues()[89 - k], 1e-5 * pc.variances[0]) << k;
  }
  const Eigen::VectorXd first = centered * full.eigenvectors().col(89);
  EXPECT_NEAR(std::abs(first.dot(pc.coordinates.col(0))) / first.norm() / pc.coordinates.col(0).norm(), 1, 1e-6);
}

TEST(PrincipalComponents, OfCopiesHaveTheRankOfTheOriginal) {
  const Eigen::MatrixXd x = noise(50, 3);
  Eigen::MatrixXd copies(50, 9);
  copies << x, x, x;
  std::vector<Eigen::Index> core;
  for (Eigen::Index r = 0; r < 50; ++r) core.push_back(r);
  EXPECT_EQ(principal_components(gram_of(copies), core, 9).variances.size(), 3);
}

}  // namespace
}  // namespace reveal::tests::principal_components_test
