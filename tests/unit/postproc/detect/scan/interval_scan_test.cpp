#include "postproc/detect/scan/interval_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "postproc/detect/scan/repeated_events.h"
#include "postproc/detect/scan/series_scan.h"
#include "postproc/numerics/normal_scores.h"

namespace reveal::tests::interval_scan_test {
namespace {

constexpr ScanScale kTenHertz{.samples_per_second = 10};

double variance_of(const std::vector<float>& g) {
  double squares = 0;
  for (const float v : g) squares += static_cast<double>(v) * v;
  return squares / static_cast<double>(g.size());
}

std::vector<double> noise(std::size_t samples, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<double> values(samples);
  for (double& v : values) {
    v = 0;
    for (int k = 0; k < 12; ++k) v += static_cast<double>(engine() >> 11U) * 0x1.0p-53;
  }
  return values;
}

Telemetry quiet(std::size_t channels, std::size_t samples) {
  Telemetry t;
  t.samples = samples;
  for (std::size_t c = 0; c < channels; ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c), .kind = Kind::counter, .period_seconds = 0.1});
    const auto row = noise(samples, c + 1);
    t.values.insert(t.values.end(), row.begin(), row.end());
  }
  return t;
}

TEST(NormalScores, AreQuantilesOfTheNormalDistribution) {
  // scipy.stats.norm.ppf; the approximation has another formula in the tails.
  const auto highest_of = [](std::size_t n) {
    std::vector<double> rising(n);
    std::iota(rising.begin(), rising.end(), 1.0);
    std::vector<float> scores(n);
    normal_scores(rising, scores);
    return scores.back();
  };
  EXPECT_NEAR(highest_of(20), 1.959963984540054, 1e-6);       // Phi^-1(0.975)
  EXPECT_NEAR(highest_of(500), 3.090232306167813, 1e-6);      // Phi^-1(0.999), a tail
  EXPECT_NEAR(highest_of(500'000), 4.753424308822899, 1e-6);  // Phi^-1(1 - 1e-6)

  std::vector<float> g(4);
  const RankSummary summary = normal_scores(std::vector<double>{30, 10, 40, 20}, g);
  EXPECT_EQ(summary.present, 4U);
  EXPECT_EQ(summary.away_from_median, 4U);
  EXPECT_NEAR(g[1], -1.1503493803760079, 1e-6);  // Phi^-1(1/8)
  EXPECT_NEAR(g[3], -0.3186393639643752, 1e-6);  // Phi^-1(3/8)
}

TEST(NormalScores, TellApartWhatSinglePrecisionCannot) {
  std::mt19937_64 engine(11);
  const auto draw = [&](auto make) {
    std::vector<double> values(500);
    for (double& v : values) v = make(static_cast<double>(engine() % 1000));
    return values;
  };
  // In narrow steps far from zero, in narrow steps far from the least, with repetitions, and too far apart to subtract.
  for (std::vector<double> values :
       {draw([](double r) { return 1e9 + r * 1.1e-7; }), draw([](double r) { return r < 10 ? -r / 7 : 1 + r * 1e-12; }),
        draw([](double r) { return std::floor(r / 100) / 3; }), draw([](double r) { return (r - 500) * 1e306 / 3; })}) {
    values[7] = std::nan("");
    std::vector<float> g(values.size());
    EXPECT_EQ(normal_scores(values, g).present, 499U);
    for (std::size_t a = 0; a < values.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (a == 7 || b == 7) continue;
        ASSERT_EQ(values[a] < values[b], g[a] < g[b]) << values[a] << " " << values[b];
        ASSERT_EQ(values[a] == values[b], g[a] == g[b]) << values[a] << " " << values[b];
      }
    }
  }
}

TEST(NormalScores, ShareTheMeanRankAmongTiesAndLeaveMissingAtZero) {
  std::vector<float> g(5);
  const RankSummary summary = normal_scores(std::vector<double>{1, 1, std::nan(""), 2, 2}, g);
  EXPECT_EQ(summary.present, 4U);
  EXPECT_FLOAT_EQ(g[0], g[1]);
  EXPECT_NEAR(g[0], -0.6744897501960817, 1e-6);  // rank 1.5 of 4: Phi^-1(1/4)
  EXPECT_EQ(g[2], 0);
  EXPECT_NEAR(g[4], 0.6744897501960817, 1e-6);
}

// The oracle of the specification: 0 everywhere, 1 in [b, b + 100) of 600.
TEST(IntervalScan, MeasuresTheDistanceBeyondEveryOutsideMean) {
  std::vector<double> x(600, 0.0);
  std::fill(x.begin() + 200, x.begin() + 300, 1.0);
  std::vector<float> g(600);
  normal_scores(x, g);
  const double v = variance_of(g);
  const SeriesScan scan(g, v, 1, 50);
  const double inside = g[250];
  const double high = g[0];
  EXPECT_NEAR(scan.gap(200, 300), (inside - high) / std::sqrt(v / 100), 1e-4);
  EXPECT_EQ(scan.gap(0, 100), 0);    // the ones are outside: the range holds every mean
  EXPECT_EQ(scan.gap(190, 240), 0);  // reference means reach the ones
}

TEST(IntervalScan, EqualsItsDefinitionOnRandomSeries) {
  std::vector<float> g(240);
  normal_scores(noise(240, 7), g);
  const double v = variance_of(g);
  const std::size_t l = 20;
  const SeriesScan scan(g, v, 1, l);
  const auto mean = [&](std::size_t b, std::size_t e) {
    double sum = 0;
    for (std::size_t t = b; t < e; ++t) sum += g[t];
    return sum / static_cast<double>(e - b);
  };
  for (const auto& [b, e] : {std::pair{0U, 40U}, {37U, 77U}, {100U, 190U}, {200U, 240U}, {15U, 35U}}) {
    double high = -INFINITY;
    double low = INFINITY;
    double sum = 0;
    double squares = 0;
    double n = 0;
    for (std::size_t s = 0; s + l <= g.size(); ++s) {
      if (s + l > b && s < e) continue;
      const double m = mean(s, s + l);
      high = std::max(high, m);
      low = std::min(low, m);
      sum += m;
      squares += m * m;
      n += 1;
    }
    const double length = e - b;
    const double inside = mean(b, e);
    EXPECT_NEAR(scan.gap(b, e), std::max({0.0, inside - high, low - inside}) / std::sqrt(v / length), 1e-4);
    const double spread = squares / n - sum / n * (sum / n);
    EXPECT_NEAR(scan.z(b, e), (inside - sum / n) / std::sqrt(spread * l / length + v / length), 1e-6);
  }
}

TEST(IntervalScan, ScoresManyIntervalsAsOneByOne) {
  for (const auto& [step, outside] : {std::pair{5U, 50U}, {5U, 30U}, {3U, 20U}, {7U, 17U}}) {
    std::vector<float> g(803);
    normal_scores(noise(g.size(), step), g);
    SeriesScan scan(g, variance_of(g), 1, outside);
    for (const std::size_t length : {50U, 53U, 140U, 790U, 803U}) {
      std::vector<float> many((g.size() - length) / step + 1);
      scan.gaps(length, step, many);
      for (std::size_t i = 0; i < many.size(); ++i) ASSERT_EQ(many[i], scan.gap(i * step, i * step + length)) << i;
    }
    for (const std::size_t first : {0U, 10U, 241U}) {
      std::vector<float> many(60);
      scan.open_gaps(first, step, many);
      for (std::size_t i = 0; i < many.size(); ++i) ASSERT_EQ(many[i], scan.gap(first + i * step, g.size())) << i;
    }
  }
}

TEST(IntervalScan, SumsOfAWholeSeriesGiveTheSameDistance) {
  Telemetry t = quiet(3, 900);
  const ScanInput input = scan_input(t, 0, t.samples, kTenHertz);
  ReferenceMeans reference(input, kTenHertz);
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    const SeriesScan scan(input.of(i), input.series[i].variance, input.series[i].hold, 50);
    for (const auto& [b, e] : {std::pair{0U, 60U}, {0U, 50U}, {33U, 60U}, {400U, 777U}, {840U, 900U}, {60U, 900U}}) {
      EXPECT_NEAR(reference.z(i, b, e), scan.z(b, e), 1e-9) << b;
    }
  }
  EXPECT_EQ(reference.z(0, 0, 900), 0);  // nothing is left outside
}

TEST(IntervalScan, CountsRecurringPhasesAsNothing) {
  std::vector<double> x = noise(1200, 3);
  for (std::size_t t = 0; t < x.size(); ++t) x[t] += t % 300 < 100 ? 5 : 0;
  std::vector<float> g(x.size());
  normal_scores(x, g);
  const SeriesScan scan(g, variance_of(g), 1, 50);
  for (std::size_t b = 0; b + 100 <= x.size(); b += 100) EXPECT_LT(scan.gap(b, b + 100), 1.0) << b;
}

double best_score(const Telemetry& t) {
  ScanInput input = scan_input(t, 0, t.samples, kTenHertz);
  mark_detecting(input, SeriesCorrelation(input, kTenHertz));
  double best = 0;
  for (const ScoredInterval& i : scan_intervals(input, scan_options(kTenHertz, t.samples)))
    best = std::max(best, i.score);
  return best;
}

TEST(IntervalScan, IsUnchangedByIncreasingTransformsOfCounters) {
  Telemetry t = quiet(40, 600);
  for (std::size_t c = 0; c < 40; c += 2) {
    for (std::size_t s = 200; s < 300; ++s) t.series(c)[s] += 2;
  }
  const double before = best_score(t);
  EXPECT_GT(before, 5.2);
  for (double& v : t.values) v = std::exp(v) * 1e6;
  EXPECT_DOUBLE_EQ(best_score(t), before);
}

TEST(IntervalScan, IsHardlyMovedByOneWildSample) {
  Telemetry t = quiet(40, 600);
  for (std::size_t c = 0; c < 40; c += 2) {
    for (std::size_t s = 200; s < 300; ++s) t.series(c)[s] += 2;
  }
  const double before = best_score(t);
  t.series(0)[250] = 1e9;
  EXPECT_NEAR(best_score(t), before, 0.05 * before);
}

std::vector<std::size_t> lengths(const ScanScale& scale, std::size_t samples) {
  std::vector<std::size_t> all;
  for (const ScanLengths& size : scan_options(scale, samples).sizes) {
    for (const std::size_t length : size.lengths) {
      EXPECT_GE(length, size.reference);
      all.push_back(length);
    }
  }
  return all;
}

TEST(IntervalScan, LooksForLongEventsInLongJobsOnly) {
  const std::vector<std::size_t> short_job{30, 40, 50, 70, 100, 140, 200};
  EXPECT_EQ(lengths(kTenHertz, 600), short_job);
  const std::vector<std::size_t> long_job{30, 40, 50, 70, 100, 140, 200, 280, 400, 600, 800, 1200, 1600, 2400};
  EXPECT_EQ(lengths(kTenHertz, 6000), long_job);
  const std::vector<std::size_t> minutes{6, 8, 10, 14, 20, 28, 40, 56};
  EXPECT_EQ(lengths(scan_scale(60), 150), minutes);
  EXPECT_EQ(lengths(scan_scale(1), 150).front(), 3U);
}

TEST(IntervalScan, AveragesMoreSeriesOnLargerNodes) {
  EXPECT_EQ(combined_series(60, ScanOf::job), 20U);
  EXPECT_EQ(combined_series(400, ScanOf::job), 20U);
  EXPECT_EQ(combined_series(1000, ScanOf::job), 50U);
}

TEST(IntervalScan, AveragesFewerSeriesInJobsOfFewChannels) {
  EXPECT_EQ(combined_series(59, ScanOf::job), 19U);
  EXPECT_EQ(combined_series(30, ScanOf::job), 10U);
  EXPECT_EQ(combined_series(2, ScanOf::job), 3U);
  EXPECT_EQ(combined_series(30, ScanOf::stream), 20U);
}

TEST(IntervalScan, SeesAnEventThatNeverEnds) {
  Telemetry t = quiet(40, 1000);
  for (std::size_t c = 0; c < 40; c += 2) {
    for (std::size_t s = 400; s < 1000; ++s) t.series(c)[s] += 2;
  }
  ScanInput input = scan_input(t, 0, t.samples, kTenHertz);
  mark_detecting(input, SeriesCorrelation(input, kTenHertz));
  ScanOptions options = scan_options(kTenHertz, t.samples);
  options.open_end = true;
  const auto intervals = scan_intervals(input, options);
  const auto best = std::max_element(intervals.begin(), intervals.end(),
                                     [](const auto& a, const auto& b) { return a.score < b.score; });
  EXPECT_EQ(best->begin, 400U);
  EXPECT_EQ(best->end, 1000U);
  EXPECT_GT(best->score, 4.7);
}

TEST(IntervalScan, SeesEachOfTwoLikeEventsWithoutTheOther) {
  Telemetry t = quiet(40, 1200);
  for (std::size_t c = 0; c < 40; c += 2) {
    for (std::size_t s = 300; s < 400; ++s) t.series(c)[s] += 3;
    for (std::size_t s = 800; s < 900; ++s) t.series(c)[s] += 3;
  }
  ScanInput input = scan_input(t, 0, t.samples, kTenHertz);
  mark_detecting(input, SeriesCorrelation(input, kTenHertz));
  const ScoredInterval first{300, 400, 0};
  const ScoredInterval second{800, 900, 0};
  EXPECT_LT(score_without(input, first, {{500, 600, 0}}, kTenHertz), 1);
  EXPECT_GT(score_without(input, first, {second}, kTenHertz), 4.7);
  EXPECT_NEAR(score_without(input, second, {first}, kTenHertz), score_without(input, first, {second}, kTenHertz), 1);
}

TEST(IntervalScan, RefinesAnIntervalToOneSample) {
  Telemetry t = quiet(20, 600);
  for (std::size_t c = 0; c < 20; ++c) {
    for (std::size_t s = 213; s < 331; ++s) t.series(c)[s] += c % 2 == 0 ? 6 : -6;
  }
  ScanInput input = scan_input(t, 0, t.samples, kTenHertz);
  mark_detecting(input, SeriesCorrelation(input, kTenHertz));
  ReferenceMeans reference(input, kTenHertz);
  const ScoredInterval refined = refine(reference, {230, 300, 9}, kTenHertz);
  EXPECT_EQ(refined.begin, 213U);
  EXPECT_EQ(refined.end, 331U);
  EXPECT_EQ(refined.score, 9);
}

/// As refine(), by trying all pairs of a begin and an end.
ScoredInterval best_of_all(ReferenceMeans& reference, const ScoredInterval& interval, const ScanScale& scale) {
  const ScanInput& input = reference.input();
  std::vector<std::pair<double, std::size_t>> loudest;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (input.series[i].detects) loudest.emplace_back(reference.z(i, interval.begin, interval.end), i);
  }
  std::sort(loudest.begin(), loudest.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  loudest.resize(std::min<std::size_t>(15, loudest.size()));
  std::vector<double> sums(input.samples + 1);
  for (const auto& [z, series] : loudest) {
    double sum = 0;
    for (std::size_t t = 0; t < input.samples; ++t) {
      sum += input.of(series)[t];
      sums[t + 1] += std::clamp(z, -10.0, 10.0) * sum;
    }
  }
  const std::size_t share = (interval.end - interval.begin) * 3 / 10;
  const auto near = [](std::size_t a, std::size_t b, std::size_t reach) { return a <= b + reach && b <= a + reach; };
  ScoredInterval best = interval;
  double most = 0;
  for (std::size_t b = 0; b < input.samples; ++b) {
    if (!near(b, interval.begin, std::max(scale.samples(6), share))) continue;
    for (std::size_t e = b + scale.samples(1); e <= input.samples && e - b < input.samples; ++e) {
      if (!near(e, interval.end, std::max(scale.samples(8), share))) continue;
      const auto n = static_cast<double>(e - b);
      const double value = (sums[e] - sums[b]) / std::sqrt(n * (1 - n / static_cast<double>(input.samples)));
      if (value <= most) continue;
      most = value;
      best = {b, e, interval.score};
    }
  }
  return best;
}

TEST(IntervalScan, RefinesToTheBestOfAllIntervalsInReach) {
  constexpr ScanScale kScales[] = {kTenHertz, {.samples_per_second = 2, .has_start_and_end = false}};
  std::mt19937_64 engine(26);
  int changed = 0;
  for (int job = 0; job < 60; ++job) {
    const ScanScale& scale = kScales[job % 2];
    const std::size_t samples = 100 + engine() % 250;
    Telemetry t = quiet(12, samples);
    const std::size_t first = engine() % samples;
    const std::size_t end = std::min(samples, first + 5 + engine() % 100);
    for (std::size_t c = 0; c < 12; ++c) {
      const std::vector<double> other = noise(samples, engine());
      double walk = 0;  // every third job drifts
      for (std::size_t s = 0; s < samples; ++s) {
        walk += job % 3 == 0 ? other[s] - 6 : 0;
        t.series(c)[s] = other[s] + walk + (s >= first && s < end ? static_cast<double>(c % 3) : 0);
      }
    }
    ScanInput input = scan_input(t, 0, samples, scale);
    mark_detecting(input, SeriesCorrelation(input, scale));
    ReferenceMeans reference(input, scale);
    for (const ScoredInterval& rough :
         {ScoredInterval{first, end, 5}, ScoredInterval{0, samples / 3, 5}, ScoredInterval{samples / 2, samples, 5}}) {
      if (rough.end - rough.begin < 5 || rough.end - rough.begin > samples / 2 + 1) continue;
      const ScoredInterval expected = best_of_all(reference, rough, scale);
      const ScoredInterval refined = refine(reference, rough, scale);
      EXPECT_EQ(refined.begin, expected.begin) << job << ": " << rough.begin << " to " << rough.end;
      EXPECT_EQ(refined.end, expected.end) << job << ": " << rough.begin << " to " << rough.end;
      EXPECT_EQ(refined.score, 5);
      changed += expected.begin != rough.begin || expected.end != rough.end ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 100);
}

TEST(IntervalScan, RefinesAnIntervalOfAMinuteToOneSampleOfAMillisecond) {
  constexpr ScanScale kThousandHertz{.samples_per_second = 1000};
  constexpr std::size_t kBegin = 51'234;
  constexpr std::size_t kEnd = 113'579;
  Telemetry t = quiet(4, 180'000);
  for (std::size_t c = 0; c < 4; ++c) {
    t.channels[c].period_seconds = 0.001;
    for (std::size_t s = kBegin; s < kEnd; ++s) t.series(c)[s] += c % 2 == 0 ? 12 : -12;
  }
  ScanInput input = scan_input(t, 0, t.samples, kThousandHertz);
  for (ScanSeries& series : input.series) series.detects = true;
  ReferenceMeans reference(input, kThousandHertz);
  const ScoredInterval refined = refine(reference, {46'000, 120'000, 9}, kThousandHertz);
  EXPECT_EQ(refined.begin, kBegin);
  EXPECT_EQ(refined.end, kEnd);
}

std::vector<SeriesForm> forms(const ScanInput& input) {
  std::vector<SeriesForm> all;
  for (const ScanSeries& s : input.series) all.push_back(s.form);
  return all;
}

TEST(ScanSeries, ContrastsOnlyPeersOfTheSameMetricAndFamily) {
  Telemetry t = quiet(4, 300);
  for (Channel& channel : t.channels) channel.metric = "cpu.user";
  t.channels[0].instance = "cpu0";
  t.channels[1].instance = "cpu1";
  t.channels[2].instance = "rank1";
  t.channels[3].instance = "cpu2";
  t.channels[3].family = "another";
  const ScanInput input = scan_input(t, 0, 300, kTenHertz);
  ASSERT_EQ(input.series.size(), 5U);
  EXPECT_EQ(input.series[4].form, SeriesForm::contrast);
  EXPECT_EQ(input.series[4].channel, 0U);
  EXPECT_EQ(input.series[4].peer, 1U);

  t.channels[0].instance = "sda1";
  t.channels[1].instance = "sda2";
  EXPECT_EQ(scan_input(t, 0, 300, kTenHertz).series.size(), 4U);

  t.channels[0].instance = "eth0";
  t.channels[1].instance = "ns2/eth0";  // the job's first namespace has no name
  t.channels[2].instance = "ns2/lo";
  EXPECT_EQ(scan_input(t, 0, 300, kTenHertz).series.size(), 5U);

  for (std::size_t c = 0; c < 4; ++c) t.channels[c].instance = "n" + std::to_string(c) + "/eth0";
  t.channels[3].family = "";
  EXPECT_EQ(scan_input(t, 0, 300, kTenHertz).series.size(), 8U);  // four members: each minus their median
}

TEST(ScanSeries, TakesGaugesAsIncrementsAndLevelsOnlyWhereTheyDoNotDrift) {
  Telemetry t = quiet(2, 300);
  for (Channel& channel : t.channels) channel.kind = Kind::gauge;
  for (std::size_t s = 1; s < 300; ++s) t.series(1)[s] += t.series(1)[s - 1];  // grows all the time
  const std::vector<SeriesForm> expected{SeriesForm::rate, SeriesForm::level, SeriesForm::rate};
  EXPECT_EQ(forms(scan_input(t, 0, 300, kTenHertz)), expected);
}

TEST(ScanSeries, LeavesOutWhatCannotSpeak) {
  Telemetry t = quiet(6, 300);
  std::fill(t.series(0).begin(), t.series(0).end(), 4.0);      // constant
  std::fill_n(t.series(1).begin(), 241, std::nan(""));         // less than a fifth present
  std::fill(t.series(2).begin() + 5, t.series(2).end(), 6.0);  // five samples away from the median
  t.channels[3].subsystem = Subsystem::self;
  t.channels[4].kind = Kind::state;
  std::fill_n(t.series(5).begin(), 240, std::nan(""));
  const ScanInput input = scan_input(t, 0, 300, kTenHertz);
  ASSERT_EQ(input.series.size(), 1U);
  EXPECT_EQ(input.series[0].channel, 5U);
  EXPECT_EQ(input.of(0)[0], 0);  // missing: at the median
}

TEST(ScanSeries, DetectsWithOneOfNearCopiesInsideASubsystem) {
  Telemetry t = quiet(3, 300);
  for (std::size_t s = 0; s < 300; ++s) t.series(1)[s] = 3 * t.series(0)[s] + 1;
  for (std::size_t s = 0; s < 300; ++s) t.series(2)[s] = t.series(0)[s];
  t.channels[2].subsystem = Subsystem::network;
  ScanInput input = scan_input(t, 0, 300, kTenHertz);
  mark_detecting(input, SeriesCorrelation(input, kTenHertz));
  EXPECT_TRUE(input.series[0].detects);
  EXPECT_FALSE(input.series[1].detects);
  EXPECT_TRUE(input.series[2].detects);
}

}  // namespace
}  // namespace reveal::tests::interval_scan_test
