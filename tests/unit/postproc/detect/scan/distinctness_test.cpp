#include "postproc/detect/scan/distinctness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>

#include "postproc/detect/pipeline.h"

namespace reveal::tests::distinctness_test {
namespace {

constexpr ScanScale kTenHertz{.samples_per_second = 10};

using Series = std::function<double(std::size_t channel, std::size_t sample, double noise)>;

/// `noise`: of mean 0 and deviation 1.
Telemetry gauges(std::size_t channels, std::size_t samples, const Series& series) {
  std::mt19937_64 engine(5);
  Telemetry t{.step_seconds = 0.1, .samples = samples};
  for (std::size_t c = 0; c < channels; ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c), .kind = Kind::gauge, .period_seconds = 0.1});
    for (std::size_t s = 0; s < samples; ++s) {
      double noise = -6;
      for (int k = 0; k < 12; ++k) noise += static_cast<double>(engine() >> 11U) * 0x1.0p-53;
      t.values.push_back(series(c, s, noise));
    }
  }
  return t;
}

ScanInput levels_of(Telemetry t) {
  for (Channel& channel : t.channels) channel.kind = Kind::counter;  // taken as they are
  ScanInput input = scan_input(t, 0, t.samples, kTenHertz);
  for (ScanSeries& series : input.series) series.detects = true;
  return input;
}

std::size_t findings(const Telemetry& t) {
  std::size_t count = 0;
  for (const Episode& episode : find_pipeline("reveal").run(t, {}).episodes) count += episode.tier == Tier::strong;
  return count;
}

bool inside(const ScoredInterval& interval, std::size_t sample) {
  return sample >= interval.begin && sample < interval.end;
}

TEST(Distinctness, IsOfAStepAndNotOfABumpAsHigh) {
  const ScoredInterval interval{400, 500, 0};
  const ScanInput step = levels_of(
      gauges(3, 1000, [&](std::size_t, std::size_t s, double noise) { return noise + (inside(interval, s) ? 6 : 0); }));
  EXPECT_TRUE(is_distinct(step, interval, {}, kTenHertz));
  const ScanInput bump = levels_of(gauges(3, 1000, [](std::size_t, std::size_t s, double noise) {
    return noise / 10 + 6 * std::exp(-std::pow((static_cast<double>(s) - 450) / 100, 2));
  }));
  EXPECT_FALSE(is_distinct(bump, interval, {}, kTenHertz));
}

/// Levels of five seconds, `usual` apart from the next lower and higher one, in an order without a pattern.
double level_at(std::size_t sample, std::size_t channel, double usual) {
  return usual * static_cast<double>((sample / 50 * 7 + channel) % 8);
}

TEST(Distinctness, IsNotOfOneMoreMoveAmongMovesAsLarge) {
  const ScoredInterval interval{400, 450, 0};
  const auto series = [&](double usual) {
    return levels_of(gauges(3, 1000, [&, usual](std::size_t c, std::size_t s, double noise) {
      return noise / 2 + (inside(interval, s) ? 7.3 : level_at(s, c, usual));
    }));
  };
  EXPECT_TRUE(is_distinct(series(0), interval, {}, kTenHertz));
  EXPECT_FALSE(is_distinct(series(1), interval, {}, kTenHertz));
}

TEST(Distinctness, AsksMoreOfAnIntervalOfWhichOneEdgeIsKnown) {
  const ScoredInterval closed{600, 900, 0};
  const ScoredInterval open{700, 1000, 0};
  const auto with = [&](const ScoredInterval& interval) {
    return levels_of(gauges(3, 1000, [&](std::size_t c, std::size_t s, double noise) {
      return noise + (inside(interval, s) ? 12 : level_at(s, c, 1));
    }));
  };
  EXPECT_TRUE(is_distinct(with(closed), closed, {}, kTenHertz));
  EXPECT_FALSE(is_distinct(with(open), open, {}, kTenHertz));
}

TEST(Distinctness, LooksAtTwinsWithoutEachOther) {
  const ScoredInterval first{400, 500, 0};
  const ScoredInterval second{800, 900, 0};
  const ScanInput input = levels_of(gauges(3, 1400, [&](std::size_t, std::size_t s, double noise) {
    return noise + (inside(first, s) || inside(second, s) ? 6 : 0);
  }));
  EXPECT_FALSE(is_distinct(input, first, {}, kTenHertz));
  EXPECT_TRUE(is_distinct(input, first, std::vector{second}, kTenHertz));
  EXPECT_TRUE(is_distinct(input, second, std::vector{first}, kTenHertz));
}

TEST(RevealPipeline, FindsNothingInWavesLongerThanTheJob) {
  for (const std::size_t channels : {1, 3, 20}) {
    const Telemetry t = gauges(channels, 1000, [](std::size_t c, std::size_t s, double noise) {
      return std::sin(std::numbers::pi * static_cast<double>(s) / 1500 + static_cast<double>(c)) + noise / 10;
    });
    EXPECT_EQ(findings(t), 0U) << channels;
  }
}

TEST(RevealPipeline, FindsNothingInTrendsUnderNoise) {
  for (const std::size_t channels : {1, 3, 20}) {
    const Telemetry t = gauges(channels, 2000, [](std::size_t c, std::size_t s, double noise) {
      return noise + (1 + static_cast<double>(c % 3)) * static_cast<double>(s) / 1000;
    });
    EXPECT_EQ(findings(t), 0U) << channels;
  }
}

TEST(RevealPipeline, FindsNothingInRandomWalks) {
  for (const std::size_t channels : {3, 8, 40}) {
    std::vector<double> level(channels);
    const Telemetry t =
        gauges(channels, 1000, [&](std::size_t c, std::size_t, double noise) { return level[c] += noise; });
    EXPECT_EQ(findings(t), 0U) << channels;
  }
}

TEST(RevealPipeline, FindsAStepBesideWavesThatAreRefused) {
  const ScoredInterval interval{500, 600, 0};
  const Telemetry t = gauges(6, 1000, [&](std::size_t c, std::size_t s, double noise) {
    if (c >= 3) return noise + (inside(interval, s) ? 8 : 0);
    return std::sin(std::numbers::pi * static_cast<double>(s) / 1500 + static_cast<double>(c)) + noise / 10;
  });
  EXPECT_EQ(findings(t), 1U);
}

}  // namespace
}  // namespace reveal::tests::distinctness_test
