#include "postproc/numerics/periodicity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace reveal::tests::periodicity_test {
namespace {

/// Cpus that a job uses: it works for most of each iteration and waits in the rest of it, with a jitter of its lengths.
std::vector<double> working(double period, std::size_t samples, double jitter = 0.02, double noise = 0.1) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> fine(samples * 10, 0.0);  // tenths of samples
  double begin = 0;
  while (begin < static_cast<double>(fine.size())) {
    const double length = 10 * period * (1 + jitter * normal(random));
    const auto from = static_cast<std::size_t>(begin);
    const auto to = static_cast<std::size_t>(begin + 0.6 * length);
    for (std::size_t i = from; i < std::min(to, fine.size()); ++i) fine[i] = 4;
    begin += std::max(1.0, length);
  }
  std::vector<double> series(samples, 0.0);
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t part = 0; part < 10; ++part) series[i] += fine[10 * i + part] / 10;
    series[i] += noise * normal(random);
  }
  return series;
}

TEST(Periodicity, IsMeasuredWithItsError) {
  for (const double period : {5.3, 7.0, 12.4, 48.0, 120.0}) {
    const auto found = periodicity_of(working(period, 6000));
    ASSERT_TRUE(found) << period;
    EXPECT_NEAR(found->length, period, 0.03 * period) << period;
    EXPECT_LT(found->error, 0.02 * period) << period;
    EXPECT_LT(std::abs(found->length - period), 5 * found->error) << period;
    EXPECT_GT(found->strength, 0.3) << period;
  }
}

TEST(Periodicity, IsFoundBesideCheckpointsAndGaps) {
  std::vector<double> series = working(12.4, 6000);
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (i % 600 > 570) series[i] = 0;
    if (i % 97 == 0) series[i] = std::numeric_limits<double>::quiet_NaN();
  }
  const auto found = periodicity_of(series);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->length, 12.4, 0.3);
}

TEST(Periodicity, IsNoMultipleOfTheIteration) {
  std::vector<double> series = working(10, 6000, 0, 0);  // exactly the same again
  const auto found = periodicity_of(series);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->length, 10, 0.05);
}

TEST(Periodicity, IsNotFoundWhereThereIsNone) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 1);
  std::vector<double> noise(6000);
  std::vector<double> wander(6000);
  double level = 50;
  for (std::size_t i = 0; i < noise.size(); ++i) {
    noise[i] = 4 + normal(random);
    wander[i] = level = 0.98 * level + 0.02 * 50 + 3 * normal(random);
  }
  EXPECT_FALSE(periodicity_of(noise)) << "noise";
  EXPECT_FALSE(periodicity_of(wander)) << "levels that wander";
  EXPECT_FALSE(periodicity_of(std::vector<double>(6000, 4.0))) << "a constant";
  EXPECT_FALSE(periodicity_of(std::vector<double>(6000, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_FALSE(periodicity_of({}));
  EXPECT_FALSE(periodicity_of(working(12, 500))) << "too short";
  EXPECT_FALSE(periodicity_of(working(0.95, 6000, 0))) << "faster than the samples: another rhythm would show";
  EXPECT_FALSE(periodicity_of(working(3, 6000, 0))) << "so few samples show a rhythm that may be another one";
  std::vector<double> faint = working(12, 6000, 0, 0);
  for (double& value : faint) value = 100 + value;
  EXPECT_FALSE(periodicity_of(faint)) << "small beside the level";
}

TEST(Periodicity, IsNotFoundWhereItChangesAllTheTime) {
  std::vector<double> series;
  for (const double period : {6.0, 11.0, 17.0, 29.0, 8.0, 14.0}) {
    const std::vector<double> part = working(period, 1000);
    series.insert(series.end(), part.begin(), part.end());
  }
  EXPECT_FALSE(periodicity_of(series));
}

}  // namespace
}  // namespace reveal::tests::periodicity_test
