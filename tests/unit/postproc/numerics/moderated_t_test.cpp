#include "postproc/numerics/moderated_t.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace reveal::tests::moderated_t_test {
namespace {

// scipy.stats.t.sf(t, df) * 2
TEST(ModeratedT, HasStudentsTails) {
  EXPECT_NEAR(two_sided_p(2.0, 5), 0.10193947882, 1e-9);
  EXPECT_NEAR(two_sided_p(-2.0, 5), 0.10193947882, 1e-9);
  EXPECT_NEAR(two_sided_p(1.0, 1), 0.5, 1e-12);
  EXPECT_NEAR(two_sided_p(5.0, 2.5), 0.02345118997, 1e-9);
  EXPECT_NEAR(two_sided_p(10.0, 18) / 8.930946909956934e-09, 1, 1e-6);
  EXPECT_EQ(two_sided_p(0, 4), 1);
  EXPECT_EQ(two_sided_p(std::numeric_limits<double>::quiet_NaN(), 4), 1);
}

std::vector<double> variances(double unevenness, std::size_t count, int df) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> all;
  for (std::size_t i = 0; i < count; ++i) {
    const double sigma = 0.03 * std::exp(unevenness * normal(random));
    double sum = 0;
    for (int k = 0; k < df; ++k) sum += std::pow(sigma * normal(random), 2);
    all.push_back(sum / df);
  }
  return all;
}

TEST(ModeratedT, BorrowsWhereChannelsAreAlike) {
  const VariancePrior alike = variance_prior(variances(0, 400, 7), 7, 1e-6);
  EXPECT_NEAR(alike.s2, 9e-4, 2e-4);
  EXPECT_EQ(alike.df, 4);
  const VariancePrior uneven = variance_prior(variances(1, 400, 7), 7, 1e-6);
  EXPECT_LT(uneven.df, 1.5) << "channels that differ in their noise lend each other nothing";
}

TEST(ModeratedT, KnowsTheSmallestVarianceBeforeThePrior) {
  const double least = least_moderated(0.04, 7, 0.01);
  EXPECT_NEAR(least, (7 * 0.04 + 4 * 0.01) / 11, 1e-12) << "a prior that counts most, with the smallest variance";
  EXPECT_NEAR(least_moderated(0.001, 7, 0.01), (7 * 0.001 + 0.5 * 0.01) / 7.5, 1e-12);
  for (const double unevenness : {0.0, 0.5, 1.0, 3.0}) {
    EXPECT_LE(least, variance_prior(variances(unevenness, 400, 7), 7, 0.01).moderated(0.04, 7)) << unevenness;
  }
}

TEST(ModeratedT, IsCarefulWithFewChannels) {
  EXPECT_EQ(variance_prior(std::vector<double>{1, 2, 3}, 3, 0.01).s2, 0.01);
  EXPECT_EQ(variance_prior({}, 3, 0.01).df, 0.5);
  EXPECT_EQ(variance_prior(std::vector<double>(100, 0.0), 3, 0.01).s2, 0.01) << "constant channels have no spread";
}

TEST(ModeratedT, FollowsBenjaminiAndHochberg) {
  // Their own example (1995, section 4.1): four discoveries at 5 %.
  const std::vector<double> p{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                              0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000};
  EXPECT_EQ(discovery_limit(p, 0.05), 0.0095);
  EXPECT_EQ(discovery_limit({0.5, 0.9}, 0.05), -1);
  EXPECT_EQ(discovery_limit({}, 0.05), -1);
}

}  // namespace
}  // namespace reveal::tests::moderated_t_test
