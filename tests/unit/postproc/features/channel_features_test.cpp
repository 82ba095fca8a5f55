// Four windows at once against one window at a time, with golden values (feature_golden_test.cpp).
#include "postproc/features/channel_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace reveal::tests::channel_features_test {
namespace {

std::vector<double> noise(std::size_t samples, double level = 0) {
  std::mt19937_64 engine(5);
  std::vector<double> values(samples);
  for (double& v : values) v = level + static_cast<double>(engine() % 1000) / 1000;
  return values;
}

void expect_same(const std::vector<double>& series, const WindowGrid& grid, double tolerance = 1e-9) {
  std::vector<double> out(kFeatureCount * grid.count);
  ChannelFeatures(grid).compute(series, out);
  Window window;
  for (std::size_t w = 0; w < grid.count; ++w) {
    window.assign(std::span(series).subspan(grid.first_sample(w), grid.length));
    const bool known = 2 * window.size() >= grid.length;
    for (std::size_t f = 0; f < kFeatureCount; ++f) {
      const double one = known ? features()[f].compute(window) : std::nan("");
      const double four = out[f * grid.count + w];
      EXPECT_EQ(std::isnan(one), std::isnan(four)) << features()[f].name << " of window " << w;
      if (std::isnan(one)) continue;
      EXPECT_NEAR(four, one, tolerance * std::max(1.0, std::abs(one))) << features()[f].name << " of window " << w;
    }
  }
}

TEST(ChannelFeatures, EqualThoseOfSingleWindowsForAnyLengthAndCount) {
  for (const std::size_t length : {1U, 2U, 6U, 7U, 8U, 29U, 30U, 31U, 64U, 100U}) {
    for (const std::size_t count : {1U, 2U, 3U, 4U, 9U}) {
      expect_same(noise(600), {.begin = 7, .length = length, .stride = 10, .count = count});
    }
  }
  expect_same(noise(3000), {.length = 1500, .stride = 10, .count = 3});
}

TEST(ChannelFeatures, StayExactAroundABillion) {
  expect_same(noise(300, 1e9), {.count = 28}, 1e-6);
}

TEST(ChannelFeatures, OfConstantAndPartlyConstantSeriesAreDefinedWhereTheReferenceIs) {
  expect_same(std::vector<double>(300, 4.5), {.count = 28});
  std::vector<double> half = noise(300);
  std::fill_n(half.begin(), 150, 7.0);
  expect_same(half, {.count = 28});
}

TEST(ChannelFeatures, SkipWhatIsMissing) {
  std::vector<double> series = noise(300);
  std::fill_n(series.begin() + 100, 40, std::nan(""));
  series[211] = std::nan("");
  expect_same(series, {.count = 28});
  expect_same(std::vector<double>(300, std::nan("")), {.count = 28});
}

}  // namespace
}  // namespace reveal::tests::channel_features_test
