#include "postproc/detect/windows/daily_baseline.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reveal::tests::daily_baseline_test {
namespace {

TEST(DailyBaseline, TakesOffWhatTheOtherDaysDoAndNotWhatOneDayDoes) {
  constexpr std::size_t kPerDay = 48;
  std::vector<double> deviation(10 * kPerDay);
  for (std::size_t w = 0; w < deviation.size(); ++w) deviation[w] = w % kPerDay < 24 ? 5 : -5;
  deviation[5 * kPerDay + 12] += 100;
  DailyBaseline daily(deviation.size(), kPerDay);
  const DailyBaseline::Fit fit = daily.take_off(deviation);
  EXPECT_EQ(fit.share, 1);
  EXPECT_GT(fit.explained, 0.95);
  EXPECT_NEAR(deviation[5 * kPerDay + 12], 100, 1e-9);
  EXPECT_NEAR(deviation[5 * kPerDay + 15], 0, 1e-9);
  EXPECT_TRUE(DailyBaseline::applies(deviation.size(), kPerDay));
  EXPECT_FALSE(DailyBaseline::applies(3 * kPerDay, kPerDay));
  EXPECT_FALSE(DailyBaseline::applies(600, 86400));
}

TEST(DailyBaseline, LeavesNoiseAlone) {
  std::mt19937_64 engine(1);
  std::vector<double> deviation(2000);
  for (double& v : deviation) v = static_cast<double>(engine() % 1000) - 500;
  const std::vector<double> before = deviation;
  EXPECT_EQ(DailyBaseline(2000, 100).take_off(deviation).share, 0);
  EXPECT_EQ(deviation, before);
}

}  // namespace
}  // namespace reveal::tests::daily_baseline_test
