#include "postproc/diagnose/count_excursion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace reveal::tests::count_excursion_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kChance = 1e-4;
constexpr std::size_t kSamples = 400;  // 40 s at 100 ms

/// Segments per sample, and the losses among them: `inside` from 10 s to 21 s, else `usual`, per segment.
struct Losses {
  std::vector<double> counts;
  std::vector<double> sent = std::vector<double>(kSamples, 400);

  Losses(unsigned seed, double usual, double inside) : Losses(seed, usual, inside, {}) {}
  Losses(unsigned seed, double usual, double inside, std::vector<double> segments) {
    if (!segments.empty()) sent = std::move(segments);
    std::mt19937 random(seed);
    counts.reserve(kSamples);
    for (std::size_t t = 0; t < kSamples; ++t) {
      const double mean = sent[t] * (t >= 100 && t < 210 ? inside : usual);
      counts.push_back(mean > 0 ? std::poisson_distribution<int>(mean)(random) : 0);
    }
  }
  [[nodiscard]] std::vector<CountExcursion> found() const { return find_count_excursions(counts, sent, kChance); }
};

TEST(CountExcursion, FindsAnIntervalOfAFewEventsPerSecond) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const auto found = Losses(seed, 0.00001, 0.001).found();  // .04 and 4 a second
    ASSERT_EQ(found.size(), 1U) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(found[0].at.begin), 100, 25) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(found[0].at.end), 210, 25) << "seed " << seed;
    EXPECT_NEAR(found[0].share(), 0.001, 0.0005) << "seed " << seed;
    EXPECT_LT(found[0].usual, 0.0001) << "seed " << seed;
  }
}

TEST(CountExcursion, FindsNoneInEventsWithOneChance) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    EXPECT_TRUE(Losses(seed, 0.001, 0.001).found().empty()) << "seed " << seed;
  }
}

TEST(CountExcursion, FindsNoneWhereEventsComeWithWhatCanBringThemAbout) {
  std::vector<double> bursts(kSamples, 4);
  std::fill(bursts.begin() + 100, bursts.begin() + 210, 4000.0);
  const Losses losses(1, 0.001, 0.001, bursts);
  EXPECT_TRUE(losses.found().empty());
  const std::vector<double> even(kSamples, 400);
  EXPECT_EQ(find_count_excursions(losses.counts, even, kChance).size(), 1U) << "against another exposure";
}

TEST(CountExcursion, GoesOnWhereNothingCouldBringEventsAbout) {
  std::vector<double> pauses(kSamples, 400);
  std::fill(pauses.begin() + 130, pauses.begin() + 180, 0.0);
  EXPECT_EQ(Losses(1, 0, 0.003, pauses).found().size(), 1U);
}

TEST(CountExcursion, FindsSeveral) {
  Losses losses(1, 0.00001, 0.001);
  for (std::size_t t = 300; t < 350; ++t) losses.counts[t] = 5;
  const auto found = losses.found();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at.begin, 300U) << "the clearest first";
  EXPECT_EQ(found[0].at.end, 350U);
  EXPECT_EQ(found[0].count, 250);
  EXPECT_EQ(found[0].exposure, 50 * 400);
  EXPECT_EQ(found[0].usual, found[1].usual);
  EXPECT_LT(found[0].usual, 0.0001) << "outside of both";
}

TEST(CountExcursion, TellsBurstsFromOneInterval) {
  std::vector<double> bursts(kSamples, 0);
  for (std::size_t t = 100; t < kSamples; t += 75)
    std::fill_n(bursts.begin() + static_cast<std::ptrdiff_t>(t), 25, 3.0);
  const auto found = find_count_excursions(bursts, std::vector<double>(kSamples, 400), kChance);
  EXPECT_EQ(found.size(), 4U) << "the first burst begins after more than a pause, and the last one ends the run";
  for (const CountExcursion& each : found) EXPECT_EQ(each.at.length(), 25U) << each.at.begin;
}

TEST(CountExcursion, LeavesOutMissingSamples) {
  Losses losses(1, 0.00001, 0.003);
  losses.counts[150] = kNaN;
  losses.sent[151] = kNaN;
  const auto found = losses.found();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LT(found[0].at.begin, 150U);
  EXPECT_GT(found[0].at.end, 152U);
  EXPECT_FALSE(std::isnan(found[0].count));
  EXPECT_TRUE(find_count_excursions(std::vector<double>(9, kNaN), std::vector<double>(9, kNaN), kChance).empty());
  EXPECT_TRUE(find_count_excursions({}, {}, kChance).empty());
}

TEST(CountExcursion, CountsNoEventsThatAreTakenBack) {
  std::vector<double> counts(kSamples, 0);
  for (std::size_t t = 100; t < 210; t += 2) {
    counts[t] = 5;
    counts[t + 1] = -5;
  }
  EXPECT_TRUE(find_count_excursions(counts, std::vector<double>(kSamples, 400), kChance).empty());
}

TEST(CountExcursion, FindsNoneOfEventsWithoutExposure) {
  EXPECT_TRUE(find_count_excursions(std::vector<double>(9, 9), std::vector<double>(9, 0), kChance).empty());
}

}  // namespace
}  // namespace reveal::tests::count_excursion_test
