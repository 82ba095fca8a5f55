#include "postproc/diagnose/excursion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "postproc/detect/scan/interval_scan.h"  // with the next one: two types of one name would not compile

namespace reveal::tests::excursion_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// 120 s at 100 ms, in cpus: the rounding of two cpus' jiffies.
std::vector<double> noise(double sigma, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<double> series(1200);
  for (double& value : series) value = normal(random);
  return series;
}

void add(std::vector<double>& series, std::size_t begin, std::size_t end, double height) {
  for (std::size_t t = begin; t < end; ++t) series[t] += height;
}

const ExcursionSearch kSearch{.min_excess = 0.15, .min_length = 30};

TEST(Excursion, FindsAWeakBoxWithSharpEnds) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    auto series = noise(0.12, seed);
    add(series, 500, 650, 0.3);
    const auto found = find_excursions(series, kSearch);
    ASSERT_EQ(found.size(), 1U) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(found[0].at.begin), 500, 5) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(found[0].at.end), 650, 5) << "seed " << seed;
    EXPECT_NEAR(found[0].inside, 0.3, 0.05);
    EXPECT_TRUE(found[0].beyond);
  }
}

TEST(Excursion, IsSilentOnNoise) {
  for (unsigned seed = 1; seed <= 20; ++seed) EXPECT_TRUE(find_excursions(noise(0.15, seed), kSearch).empty());
}

TEST(Excursion, IsSilentOnAnExcessThatIsTooShortOrTooLow) {
  auto series = noise(0.02);
  add(series, 500, 520, 1.0);
  EXPECT_TRUE(find_excursions(series, kSearch).empty());
  series = noise(0.02);
  add(series, 500, 700, 0.1);
  EXPECT_TRUE(find_excursions(series, kSearch).empty());
}

TEST(Excursion, CallsManyAlikeAHabit) {
  auto series = noise(0.03);
  for (std::size_t begin = 100; begin < 1100; begin += 150) add(series, begin, begin + 40, 0.6);
  const auto found = find_excursions(series, kSearch);
  ASSERT_FALSE(found.empty());
  for (const Excursion& excursion : found) EXPECT_TRUE(excursion.recurring);
}

TEST(Excursion, CallsAnEventAmongSmallOnesNoHabit) {
  auto series = noise(0.03);
  for (std::size_t begin = 100; begin < 700; begin += 150) add(series, begin, begin + 40, 0.4);
  add(series, 900, 1050, 1.5);
  const auto found = find_excursions(series, kSearch);
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].at.begin, 900U);
  EXPECT_FALSE(found[0].recurring);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_TRUE(found[i].recurring) << i;
}

TEST(Excursion, FindsALargeEventAfterManySmallOnes) {
  auto series = noise(0.02);
  series.resize(4000, 0.0);
  for (std::size_t begin = 100; begin < 3100; begin += 100) add(series, begin, begin + 35, 0.3);
  add(series, 3500, 3700, 2);
  const auto found = find_excursions(series, kSearch);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].at.begin, 3500U);
  EXPECT_EQ(found[0].at.end, 3700U);
}

TEST(Excursion, IsNotHiddenByOneThatIsTooLowToReport) {
  auto series = noise(0.03);
  add(series, 300, 600, 0.14);
  add(series, 800, 900, 0.2);
  ExcursionSearch search = kSearch;
  EXPECT_TRUE(find_excursions(series, search).empty());
  search.left_out = search.min_excess / 2;
  const auto found = find_excursions(series, search);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].at.begin), 800, 5);
}

TEST(Excursion, IsFoundBetweenTwoThatAreHigher) {
  auto series = noise(0.03);
  add(series, 300, 450, 1);
  add(series, 550, 650, 0.3);
  add(series, 750, 900, 1);
  EXPECT_EQ(find_excursions(series, kSearch).size(), 3U);
}

TEST(LastingExcursion, IsFoundIfTheUsualLevelIsOnBothSides) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    auto series = noise(0.12, seed);
    add(series, 300, 1000, 0.8);
    EXPECT_TRUE(find_excursions(series, kSearch).empty());
    const auto found = find_lasting_excursions(series, kSearch);
    ASSERT_EQ(found.size(), 1U) << seed;
    EXPECT_NEAR(static_cast<double>(found[0].at.begin), 300, 5) << seed;
    EXPECT_NEAR(static_cast<double>(found[0].at.end), 1000, 5) << seed;
    EXPECT_TRUE(found[0].most && found[0].beyond);
    EXPECT_TRUE(find_lasting_excursions(noise(0.15, seed), kSearch).empty());
  }
}

TEST(LastingExcursion, IsNoneWhereNobodyCanTellWhatIsUsual) {
  const auto found_in = [](std::initializer_list<Interval> elevated, std::size_t missing = 0) {
    auto series = noise(0.03);
    for (const Interval& at : elevated) add(series, at.begin, at.end, 0.6);
    for (std::size_t t = 0; t < missing; ++t) series[t] = kNaN;
    return !find_lasting_excursions(series, kSearch).empty();
  };
  EXPECT_TRUE(found_in({{400, 1050}}));
  EXPECT_FALSE(found_in({{500, 1200}})) << "to the end";
  EXPECT_FALSE(found_in({{60, 700}}, 60)) << "what was before was not measured";
  EXPECT_FALSE(found_in({{100, 1100}})) << "a begin, a job and an end";
  EXPECT_FALSE(found_in({{0, 250}, {330, 580}, {660, 910}})) << "phases, of which the first is the begin";
  EXPECT_FALSE(found_in({{100, 220}, {300, 420}, {500, 620}, {700, 820}, {900, 1020}})) << "a habit";
  EXPECT_FALSE(found_in({{500, 800}})) << "not most of it";
}

TEST(Rise, IsFoundWhereMostOfTheSeriesIsAboveItsBegin) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::size_t rise = 150 + 20 * seed;
    auto series = noise(0.12, seed);
    add(series, rise, series.size(), 0.6);
    EXPECT_TRUE(find_excursions(series, kSearch).empty());
    const auto found = find_rise(series, kSearch);
    ASSERT_TRUE(found) << seed;
    EXPECT_NEAR(static_cast<double>(found->at.begin), static_cast<double>(rise), 5) << seed;
    EXPECT_EQ(found->at.end, series.size());
    EXPECT_NEAR(found->inside - found->outside, 0.6, 0.05);
    EXPECT_FALSE(find_rise(noise(0.15, seed), kSearch));
  }
}

TEST(Rise, IsNoneWhereTheUsualLevelIsNotClear) {
  const auto found_in = [](std::size_t rise, std::initializer_list<Interval> lower = {},
                           std::initializer_list<Interval> higher = {}) {
    auto series = noise(0.03);
    add(series, rise, series.size(), 0.6);
    for (const Interval& at : lower) add(series, at.begin, at.end, -0.6);
    for (const Interval& at : higher) add(series, at.begin, at.end, 0.6);
    return find_rise(series, kSearch).has_value();
  };
  EXPECT_TRUE(found_in(300));
  EXPECT_FALSE(found_in(60)) << "too little was seen before";
  EXPECT_FALSE(found_in(700)) << "most of it is at the lower level";
  EXPECT_FALSE(found_in(300, {{600, 720}})) << "it came back";
  EXPECT_FALSE(found_in(300, {}, {{100, 200}})) << "that level was there before";
  std::vector<double> slope = noise(0.03);
  for (std::size_t t = 0; t < slope.size(); ++t) slope[t] += static_cast<double>(t) * 0.001;
  EXPECT_FALSE(find_rise(slope, kSearch)) << "it rises all the time";
  EXPECT_FALSE(find_rise({}, kSearch));
}

TEST(Excursion, KeepsTwoSeparateEventsApart) {
  auto series = noise(0.05);
  add(series, 200, 300, 0.9);
  add(series, 800, 950, 0.9);
  const auto found = find_excursions(series, kSearch);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NEAR(static_cast<double>(found[0].at.begin), 800, 3);
  EXPECT_NEAR(static_cast<double>(found[1].at.begin), 200, 3);
}

TEST(Excursion, LeavesMissingSamplesOut) {
  auto series = noise(0.02);
  add(series, 500, 650, 0.5);
  for (std::size_t t = 560; t < 575; ++t) series[t] = kNaN;
  for (std::size_t t = 900; t < 1000; ++t) series[t] = kNaN;
  const auto found = find_excursions(series, kSearch);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].at.begin), 500, 2);
  EXPECT_NEAR(static_cast<double>(found[0].at.end), 650, 2);
}

TEST(Excursion, SaysNothingAboutNothing) {
  EXPECT_TRUE(find_excursions({}, kSearch).empty());
  EXPECT_TRUE(find_excursions(std::vector<double>(1200, kNaN), kSearch).empty());
  EXPECT_TRUE(find_excursions(std::vector<double>(5, 1.0), kSearch).empty());
}

TEST(Excursion, NeverTakesTheUsualLevelBelowItsFloor) {
  // A residual that is below zero most of the time (interrupts) and zero in one phase has no outsider in it.
  auto series = noise(0.02);
  add(series, 0, 1200, -0.4);
  add(series, 500, 650, 0.4);
  EXPECT_TRUE(find_excursions(series, kSearch).empty());
}

}  // namespace
}  // namespace reveal::tests::excursion_test
