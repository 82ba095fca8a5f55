// The Gaussian mixture on points of known mixtures, and where covariances would collapse.
#include "postproc/numerics/gaussian_mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace reveal::tests::gaussian_mixture_test {
namespace {

/// Points around each row of `means` in turn, with deviation 1 in every column.
Eigen::MatrixXd points_around(const Eigen::MatrixXd& means, Eigen::Index each) {
  std::mt19937_64 engine(11);
  std::normal_distribution<double> normal;
  Eigen::MatrixXd points(each * means.rows(), means.cols());
  for (Eigen::Index i = 0; i < points.rows(); ++i) {
    points.row(i) = means.row(i % means.rows());
    for (double& v : points.row(i)) v += normal(engine);
  }
  return points;
}

bool is_finite(const GaussianMixture& mixture, const Eigen::MatrixXd& rows) {
  return mixture.log_density(rows).allFinite() && std::isfinite(mixture.bic);
}

TEST(GaussianMixture, FindsThePartsThatThereAre) {
  Eigen::MatrixXd means(3, 2);
  means << 0, 0, 9, 0, 0, 9;
  const GaussianMixture mixture = GaussianMixture::fit(points_around(means, 90), 6);
  ASSERT_EQ(mixture.parts.size(), 3U);
  for (Eigen::Index m = 0; m < 3; ++m) {
    const auto is_near = [&](const GaussianMixture::Part& part) {
      return (part.mean - means.row(m).transpose()).norm() < 0.4;
    };
    const auto part = std::find_if(mixture.parts.begin(), mixture.parts.end(), is_near);
    ASSERT_NE(part, mixture.parts.end()) << "none around " << means.row(m);
    EXPECT_NEAR(std::exp(part->log_weight), 1.0 / 3, 0.02);
    // The root of the covariance's determinant: 1, and a little more by the spread of all points.
    EXPECT_NEAR(part->cholesky.diagonal().prod(), 1.2, 0.25);
  }
}

TEST(GaussianMixture, IsOneNormalDistributionWhereThereIsOne) {
  const Eigen::MatrixXd points = points_around(Eigen::MatrixXd::Zero(1, 4), 300);
  const GaussianMixture mixture = GaussianMixture::fit(points, 6);
  ASSERT_EQ(mixture.parts.size(), 1U);
  // At the mean of a normal distribution in four dimensions: -2 log(2 pi), less the logarithm of the deviations.
  const GaussianMixture::Part& part = mixture.parts[0];
  EXPECT_NEAR(mixture.log_density(part.mean.transpose())[0],
              -3.675754132818691 - part.cholesky.diagonal().array().log().sum(), 1e-12);
}

TEST(GaussianMixture, TakesOverlappingRowsForTheObservationsThatTheyAre) {
  Eigen::MatrixXd means(2, 2);
  means << 0, 0, 2.4, 0;
  const Eigen::MatrixXd once = points_around(means, 25);
  const Eigen::MatrixXd often = once.replicate(8, 1);
  EXPECT_EQ(GaussianMixture::fit(often, 4, 1.0 / 8).parts.size(), GaussianMixture::fit(once, 4).parts.size());
  EXPECT_GT(GaussianMixture::fit(often, 4).parts.size(), GaussianMixture::fit(once, 4).parts.size())
      << "copies alone speak for more parts";
}

TEST(GaussianMixture, HasACovarianceWhereColumnsAreConstant) {
  Eigen::MatrixXd points = points_around(Eigen::MatrixXd::Zero(1, 3), 60);
  points.col(1).setConstant(7);
  const GaussianMixture mixture = GaussianMixture::fit(points, 3);
  EXPECT_TRUE(is_finite(mixture, points));
  Eigen::MatrixXd apart = points.row(0);
  apart(0, 1) = 8;
  EXPECT_LT(mixture.log_density(apart)[0], mixture.log_density(points).minCoeff()) << "the column was never else";
  const Eigen::MatrixXd copies = Eigen::MatrixXd::Constant(50, 3, 4.0);
  const GaussianMixture point = GaussianMixture::fit(copies, 3);
  EXPECT_EQ(point.parts.size(), 1U);
  EXPECT_TRUE(is_finite(point, copies));
}

TEST(GaussianMixture, MakesNoPartOfAPointThatIsAlone) {
  Eigen::MatrixXd points = points_around(Eigen::MatrixXd::Zero(1, 3), 61);
  points.row(60).setConstant(100);
  const GaussianMixture mixture = GaussianMixture::fit(points, 4);
  EXPECT_EQ(mixture.parts.size(), 1U);
  Eigen::Index strangest = 0;
  mixture.log_density(points).minCoeff(&strangest);
  EXPECT_EQ(strangest, 60);
}

TEST(GaussianMixture, NeedsFewRowsOrNone) {
  EXPECT_TRUE(GaussianMixture::fit(Eigen::MatrixXd(0, 3), 3).parts.empty());
  EXPECT_TRUE(GaussianMixture::fit(Eigen::MatrixXd(3, 0), 3).parts.empty());
  EXPECT_EQ(GaussianMixture().log_density(Eigen::MatrixXd::Ones(2, 2)), Eigen::VectorXd::Zero(2));
  for (const Eigen::Index rows : {1, 2, 5}) {
    const Eigen::MatrixXd points = points_around(Eigen::MatrixXd::Zero(1, 4), rows);
    EXPECT_TRUE(is_finite(GaussianMixture::fit(points, 3), points)) << rows;
  }
}

TEST(GaussianMixture, IsTheSameTwiceAndItsCostHasABound) {
  Eigen::MatrixXd means(4, 3);
  means << 0, 0, 0, 3, 0, 0, 0, 3, 0, 1, 1, 3;
  for (const Eigen::Index each : {30, 120}) {
    const Eigen::MatrixXd points = points_around(means, each);
    const GaussianMixture first = GaussianMixture::fit(points, 4);
    const GaussianMixture second = GaussianMixture::fit(points, 4);
    EXPECT_EQ(first.log_density(points), second.log_density(points));
    EXPECT_EQ(first.bic, second.bic);
    EXPECT_LE(first.rounds, 40U * (1 + 2 + 3 + 4)) << "whatever the rows";
  }
}

}  // namespace
}  // namespace reveal::tests::gaussian_mixture_test
