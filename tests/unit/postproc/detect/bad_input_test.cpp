#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/error_counters.h"
#include "postproc/detect/scan/interval_scan.h"
#include "postproc/detect/scan/neighbour_ratio.h"
#include "postproc/numerics/normal_scores.h"

namespace reveal::tests::bad_input_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Telemetry noise(std::size_t channels, std::size_t samples) {
  std::mt19937_64 engine(5);
  Telemetry t{.step_seconds = 0.1, .samples = samples};
  t.values.resize(channels * samples);
  for (double& value : t.values) value = static_cast<double>(engine() % 1000);
  for (std::size_t c = 0; c < channels; ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c),
                          .kind = c % 2 == 0 ? Kind::counter : Kind::gauge,
                          .subsystem = c % 2 == 0 ? Subsystem::cpu : Subsystem::network,
                          .period_seconds = 0.1});
  }
  return t;
}

/// Every reported number is defined.
void expect_defined(const Detection& detection, std::size_t samples) {
  for (const Episode& e : detection.episodes) {
    EXPECT_TRUE(std::isfinite(e.score)) << e.score;
    EXPECT_LT(e.begin, e.end);
    EXPECT_LE(e.end, samples);
    for (const Reason& reason : e.reasons) EXPECT_TRUE(std::isfinite(reason.z) && std::isfinite(reason.share));
  }
  for (const WindowScore& w : detection.windows) EXPECT_TRUE(std::isfinite(w.score));
}

Detection scan(const Telemetry& t) {
  Detection detection = find_pipeline("reveal").run(t, {.every_channel = t.channels.size() < 1000});
  expect_defined(detection, t.samples);
  return detection;
}

TEST(BadInput, OfConstantOrMissingChannelsSaysNothing) {
  Telemetry t = noise(40, 700);
  std::fill(t.values.begin(), t.values.end(), 7.0);
  EXPECT_TRUE(scan(t).episodes.empty());
  std::fill(t.values.begin(), t.values.end(), kNaN);
  EXPECT_TRUE(scan(t).episodes.empty());
  t.channels.clear();
  t.values.clear();
  EXPECT_TRUE(scan(t).episodes.empty());
}

TEST(BadInput, OfOneLengthOrAnotherIsJudgedOrRefused) {
  for (std::size_t samples = 0; samples < 420; samples += samples < 12 ? 1 : 13) {
    Telemetry t = noise(30, samples);
    for (std::size_t c = 0; c < 30; ++c) {
      for (std::size_t s = samples / 2; s < samples; ++s) t.series(c)[s] += 1e6;
    }
    const Detection detection = scan(t);
    EXPECT_EQ(detection.insufficient.empty(), samples >= 320) << samples;
  }
}

TEST(BadInput, WithGapsInSomeChannelsStillShowsTheEvent) {
  Telemetry t = noise(60, 900);
  for (std::size_t c = 0; c < 40; ++c) {
    for (std::size_t s = 500; s < 620; ++s) t.series(c)[s] += 1500;
  }
  for (std::size_t c = 0; c < 60; c += 3) std::fill_n(t.series(c).begin() + static_cast<std::ptrdiff_t>(c), 200, kNaN);
  for (std::size_t c = 0; c < 60; c += 7) {
    for (std::size_t s = c; s < 900; s += 11) t.series(c)[s] = kNaN;
  }
  const Detection detection = scan(t);
  ASSERT_FALSE(detection.episodes.empty());
  EXPECT_EQ(detection.episodes[0].tier, Tier::strong);
  EXPECT_EQ(detection.episodes[0].begin, 500U);
  EXPECT_EQ(detection.episodes[0].end, 620U);
}

TEST(BadInput, OfChannelsThatLiveForAPartOfTheJobIsNotNews) {
  Telemetry t = noise(60, 900);
  for (std::size_t c = 0; c < 40; ++c) {
    std::fill_n(t.series(c).begin(), 400, kNaN);
    std::fill(t.series(c).begin() + 640, t.series(c).end(), kNaN);
  }
  EXPECT_TRUE(scan(t).episodes.empty());
}

TEST(BadInput, NearTheEndOfTheNumbersGivesTheSameScores) {
  Telemetry t = noise(60, 700);
  for (std::size_t c = 0; c < 60; ++c) t.channels[c].kind = Kind::counter;
  for (std::size_t c = 0; c < 40; ++c) {
    for (std::size_t s = 300; s < 420; ++s) t.series(c)[s] += 1500;
  }
  const Detection plain = scan(t);
  for (double& value : t.values) value *= 1e300;
  const Detection large = scan(t);
  ASSERT_EQ(plain.episodes.size(), 1U);
  ASSERT_EQ(large.episodes.size(), 1U);
  EXPECT_DOUBLE_EQ(large.episodes[0].score, plain.episodes[0].score);
  EXPECT_EQ(large.episodes[0].begin, plain.episodes[0].begin);

  for (std::size_t c = 0; c < 60; ++c) t.channels[c].kind = Kind::gauge;  // differences of 1e308 and -1e308
  for (std::size_t i = 0; i < t.values.size(); ++i) t.values[i] *= i % 2 == 0 ? 1e5 : -1e5;
  (void)find_pipeline("reveal").run(t, {});
}

TEST(BadInput, OfManyCopiesIsOneWitness) {
  Telemetry t = noise(60, 700);
  for (std::size_t s = 300; s < 420; ++s) t.series(0)[s] += 1500;
  for (std::size_t c = 2; c < 60; c += 2) std::copy(t.series(0).begin(), t.series(0).end(), t.series(c).begin());
  for (const Episode& e : scan(t).episodes) EXPECT_NE(e.tier, Tier::strong);
}

TEST(BadInput, OfFiftyThousandChannelsIsFoundAndNamed) {
  Telemetry t = noise(50000, 400);
  for (std::size_t c = 0; c < 50000; c += 3) {
    for (std::size_t s = 200; s < 300; ++s) t.series(c)[s] += 1500;
  }
  Detection detection = find_pipeline("reveal").run(t, {.keep_windows = false});
  ASSERT_FALSE(detection.episodes.empty());
  EXPECT_EQ(detection.episodes[0].tier, Tier::strong);
}

TEST(NormalScores, AreTheSameOnEveryWayOfSorting) {
  std::mt19937_64 engine(3);
  std::vector<double> values(2000);
  for (double& value : values) value = static_cast<double>(engine() % 5000);
  values[7] = -0.0;
  values[8] = 0.0;
  std::vector<float> counted(values.size());
  const RankSummary summary = normal_scores(values, counted);
  EXPECT_FLOAT_EQ(counted[7], counted[8]);
  // Increasing maps into: wide whole numbers, single precision, double precision, beyond 2^53.
  const std::vector<double (*)(double)> maps{
      [](double x) { return x * 1e5; }, [](double x) { return static_cast<double>(static_cast<float>(x / 3)); },
      [](double x) { return std::exp(x / 1000) - 1; }, [](double x) { return (x - 2500) * 1e300; }};
  for (const auto& map : maps) {
    std::vector<double> mapped(values.size());
    std::transform(values.begin(), values.end(), mapped.begin(), map);
    std::vector<float> scores(values.size());
    EXPECT_EQ(normal_scores(mapped, scores).away_from_median, summary.away_from_median);
    EXPECT_EQ(scores, counted);
  }
}

TEST(ErrorCounters, AreFoundByValueThoughAloneAmongHundreds) {
  Telemetry t = noise(200, 900);
  t.channels.push_back({.metric = "net.rx_dropped", .kind = Kind::counter, .subsystem = Subsystem::network});
  t.values.resize(t.values.size() + 900);
  for (std::size_t s = 500; s < 560; s += 3) t.series(200)[s] = 2;
  const Detection detection = scan(t);
  ASSERT_EQ(detection.episodes.size(), 1U);
  EXPECT_EQ(detection.episodes[0].begin, 500U);
  EXPECT_EQ(detection.episodes[0].end, 558U);
  EXPECT_EQ(detection.episodes[0].tier, Tier::strong);
  EXPECT_EQ(detection.episodes[0].methods, std::vector<Method>{Method::error_counters});
  EXPECT_EQ(detection.episodes[0].reasons.at(0).channel, 200U);

  std::fill(t.series(200).begin(), t.series(200).end(), 0.0);
  for (std::size_t s = 100; s < 900; s += 120) t.series(200)[s] = 30;  // the job lives with it
  for (const Episode& e : scan(t).episodes) EXPECT_EQ(e.tier, Tier::none);
}

TEST(ErrorCounters, AreErrorsAndNotInterruptsOrRetransmissions) {
  EXPECT_EQ(least_count("net.rx_errors"), 10);
  EXPECT_EQ(least_count("softnet.dropped"), 10);
  EXPECT_EQ(least_count("cgroup.oom_kill"), 1);
  EXPECT_EQ(least_count("cgroup.cpu_throttled_periods"), 10);
  EXPECT_EQ(least_count("cpu.interrupts"), 0);
  EXPECT_EQ(least_count("tcp.RetransSegs"), 0);
  EXPECT_EQ(least_count("mem.dirty"), 0);
}

TEST(NeighbourRatio, IsAboveOneOnlyWhereSecondsHaveNoLike) {
  Telemetry t = noise(40, 1200);
  for (std::size_t c = 0; c < 40; ++c) {
    for (std::size_t s = 0; s < 1200; ++s) t.series(c)[s] += s % 300 < 60 ? 2000 : 0;  // a phase that recurs
    for (std::size_t s = 700; s < 820; ++s) t.series(c)[s] += c % 4 == 0 ? 4000 : 0;
  }
  const ScanScale scale{.samples_per_second = 10};
  ScanInput input = scan_input(t, 0, t.samples, scale);
  mark_detecting(input, SeriesCorrelation(input, scale));
  const NeighbourRatio neighbours(input, scale);
  EXPECT_GT(neighbours.ratio(700, 820), 1.3);
  EXPECT_LT(neighbours.ratio(300, 360), 1);
  EXPECT_EQ(neighbours.ratio(0, 1200), 0);  // nothing is left to compare with
}

TEST(NeighbourRatio, IsLargestWhereAllOtherSecondsAreAlike) {
  Telemetry t = noise(1, 1000);
  std::fill(t.values.begin(), t.values.end(), 5.0);
  std::fill_n(t.values.begin() + 500, 100, 8.0);
  const ScanScale scale{.samples_per_second = 10};
  ScanInput input = scan_input(t, 0, t.samples, scale);
  mark_detecting(input, SeriesCorrelation(input, scale));
  const NeighbourRatio neighbours(input, scale);
  EXPECT_GT(neighbours.ratio(500, 600), 2);
  EXPECT_EQ(neighbours.ratio(0, 1000), 0);
  EXPECT_EQ(scan(t).episodes.at(0).tier, Tier::strong);
}

}  // namespace
}  // namespace reveal::tests::bad_input_test
