#include "postproc/numerics/mean_difference.h"

#include <gtest/gtest.h>

#include <vector>

namespace reveal::tests::mean_difference_test {
namespace {

const std::vector<double> kBefore{80.1, 79.4, 81.2, 80.6};
const std::vector<double> kAfter{94.2, 92.8, 97.1};

// scipy.stats.t.ppf(0.975, df)
TEST(MeanDifference, HasStudentsQuantiles) {
  EXPECT_NEAR(t_critical(0.95, 1), 12.706204736432095, 1e-9);
  EXPECT_NEAR(t_critical(0.95, 2.5), 3.5746548420118773, 1e-9);
  EXPECT_NEAR(t_critical(0.95, 30), 2.0422724563012373, 1e-9);
  EXPECT_NEAR(t_critical(0.99, 3), 5.84090929975643, 1e-7);
}

// scipy.stats.ttest_ind(after, before, equal_var=False), and the interval from its standard error
TEST(MeanDifference, IsWelchsWithTwoSpreads) {
  const auto difference = welch_difference(kBefore, kAfter);
  ASSERT_TRUE(difference);
  EXPECT_NEAR(difference->difference, 14.375, 1e-12);
  EXPECT_NEAR(difference->low, 9.451671632155135, 1e-6);
  EXPECT_NEAR(difference->high, 19.298328367844896, 1e-6);
  EXPECT_NEAR(difference->df, 2.3667880407998427, 1e-9);
  EXPECT_NEAR(difference->p, 0.004493158396666198, 1e-9);
  EXPECT_TRUE(difference->significant());
}

// scipy.stats.ttest_ind(after, before)
TEST(MeanDifference, IsStudentsWithOneSpread) {
  const auto difference = pooled_difference(kBefore, kAfter);
  ASSERT_TRUE(difference);
  EXPECT_NEAR(difference->low, 11.41468919169717, 1e-6);
  EXPECT_NEAR(difference->high, 17.335310808302857, 1e-6);
  EXPECT_NEAR(difference->p, 5.853082695130721e-05, 1e-10);
}

TEST(MeanDifference, TakesTheSpreadOfTheSideThatHasOne) {
  const auto difference = pooled_difference(kBefore, std::vector{94.2});
  ASSERT_TRUE(difference);
  EXPECT_NEAR(difference->low, 11.15941090343525, 1e-6);
  EXPECT_NEAR(difference->high, 16.590589096564777, 1e-6);
  EXPECT_EQ(difference->df, 3);
}

// Neighbours differ by -2, 1.5 and 2.5: their variance is 12.5 / 2 / 3, with 2 * 3 * 3 / (3 * 4 - 4) = 2.25 degrees of
// freedom; scipy.stats.t(2.25)
TEST(MeanDifference, TakesTheSpreadOfOthers) {
  const auto difference = pooled_difference(std::vector{80.1}, std::vector{94.2}, std::vector{81.0, 79.0, 80.5, 83.0});
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->df, 2.25);
  EXPECT_NEAR(difference->low, 6.1892091206464235, 1e-6);
  EXPECT_NEAR(difference->high, 22.010790879353593, 1e-6);
  EXPECT_NEAR(difference->p, 0.014770862028477645, 1e-9);
}

TEST(MeanDifference, DoesNotTakeAChangeOfLevelForSpread) {
  const std::vector<double> changed_once{80, 81, 79, 80, 110, 111, 109, 110};
  const std::vector<double> restless{80, 81, 110, 80, 79, 110, 80, 81};
  EXPECT_TRUE(pooled_difference(std::vector{80.0}, std::vector{120.0}, changed_once)->significant());
  EXPECT_FALSE(pooled_difference(std::vector{80.0}, std::vector{120.0}, restless)->significant());
}

// scipy.stats.ttest_1samp(d, 0)
TEST(MeanDifference, IsOfPairs) {
  const auto difference = paired_difference(std::vector{1.02, 0.97, 1.10, 0.99, 1.05});
  ASSERT_TRUE(difference);
  EXPECT_NEAR(difference->difference, 1.026, 1e-12);
  EXPECT_NEAR(difference->low, 0.9623230925368936, 1e-9);
  EXPECT_NEAR(difference->high, 1.0896769074631063, 1e-9);
  EXPECT_NEAR(difference->p, 1.4930967862783299e-06, 1e-12);
}

TEST(MeanDifference, IsUnknownWithoutASpread) {
  EXPECT_FALSE(welch_difference(kBefore, std::vector{94.2}));
  EXPECT_FALSE(pooled_difference(std::vector{80.1}, std::vector{94.2}));
  EXPECT_FALSE(pooled_difference({}, kAfter));
  EXPECT_FALSE(paired_difference(std::vector{1.0}));
}

TEST(MeanDifference, DoesNotTakeRoundingForCertainty) {
  const std::vector<double> sixty{60.0, 60.0};
  const std::vector<double> more{60.1, 60.1};
  EXPECT_TRUE(welch_difference(sixty, more)->significant());
  EXPECT_FALSE(welch_difference(sixty, more, 0.1 * 0.1 / 12)->significant());
  const auto none = welch_difference(sixty, sixty);
  EXPECT_EQ(none->p, 1);
  EXPECT_EQ(none->low, 0);
}

}  // namespace
}  // namespace reveal::tests::mean_difference_test
