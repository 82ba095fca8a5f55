#include "postproc/detect/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "hdf5schema/basics/error.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/features/features.h"

namespace reveal::tests::pipeline_test {
namespace {

/// A job of noise: `held` samples per measurement.
Telemetry job(std::size_t channels, std::size_t samples, std::size_t held = 1, Kind kind = Kind::counter) {
  std::mt19937_64 engine(11);
  Telemetry t{.step_seconds = 0.1, .samples = samples};
  t.values.resize(channels * samples);
  for (std::size_t c = 0; c < channels; ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c),
                          .kind = kind,
                          .subsystem = c % 2 == 0 ? Subsystem::cpu : Subsystem::memory,
                          .period_seconds = 0.1 * static_cast<double>(held)});
    double value = 0;
    for (std::size_t s = 0; s < samples; ++s) {
      if (s % held == 0) value = static_cast<double>(engine() % 1000);
      t.series(c)[s] = value;
    }
  }
  return t;
}

void disturb(Telemetry& t, std::size_t begin, std::size_t end, std::size_t channels = 40, double by = 1500) {
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t s = begin; s < end; ++s) t.series(c)[s] += by;
  }
}

Detection run(std::string_view pipeline, const Telemetry& t, const DetectOptions& options = {}) {
  return find_pipeline(pipeline).run(t, options);
}

TEST(Pipelines, AreFoundByNameAndSuggestTheNearOne) {
  EXPECT_EQ(pipelines().front().name, "reveal");
  try {
    (void)find_pipeline("papr");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown pipeline \"papr\"; did you mean \"paper\"?");
  }
}

TEST(RevealPipeline, FindsAStepOfTenSecondsInThreeOfTwentyChannels) {
  for (const double deviations : {4.0, 8.0, 15.0}) {
    Telemetry t = job(20, 1000, 1, Kind::gauge);
    for (Channel& channel : t.channels) channel.subsystem = Subsystem::cpu;  // memory's levels do not detect
    disturb(t, 500, 600, 3, deviations * 1000 / std::sqrt(12));
    const Detection detection = run("reveal", t);
    ASSERT_EQ(detection.episodes.size(), 1U) << deviations;
    EXPECT_EQ(detection.episodes[0].tier, Tier::strong);
    EXPECT_EQ(detection.episodes[0].begin, 500U);
    EXPECT_EQ(detection.episodes[0].end, 600U);
  }
}

TEST(RevealPipeline, FindsNothingInNoiseOfFewChannels) {
  for (const std::size_t channels : {3, 8, 20}) {
    EXPECT_TRUE(run("reveal", job(channels, 1000, 1, Kind::gauge)).episodes.empty()) << channels;
  }
}

TEST(RevealPipeline, FindsTheIntervalAndNamesItsChannelsAndNumbers) {
  Telemetry t = job(60, 700);
  for (std::size_t c = 0; c < 40; ++c) t.channels[c].subsystem = Subsystem::network;
  disturb(t, 301, 422);
  const Detection detection = run("reveal", t);
  ASSERT_EQ(detection.episodes.size(), 1U);
  const Episode& episode = detection.episodes.front();
  EXPECT_EQ(episode.begin, 301U);
  EXPECT_EQ(episode.end, 422U);
  EXPECT_EQ(episode.tier, Tier::strong);
  EXPECT_EQ(episode.subsystem, Subsystem::network);
  EXPECT_EQ(episode.second_subsystem, Subsystem::network);
  EXPECT_EQ(episode.methods.front(), Method::interval_scan);
  ASSERT_EQ(episode.reasons.size(), 20U);
  const Reason& reason = episode.reasons.front();
  EXPECT_LT(reason.channel, 40U);
  EXPECT_EQ(reason.feature, "mean");
  EXPECT_GT(reason.z, 5);
  EXPECT_NEAR(reason.observed, 20000, 1500);  // per second
  EXPECT_NEAR(reason.expected, 5000, 500);
  EXPECT_NE(episode.claim.find(" rose to "), std::string::npos) << episode.claim;
  EXPECT_NE(episode.claim.find("for 12.1 s."), std::string::npos) << episode.claim;
}

TEST(RevealPipeline, SaysNothingAboutAnUndisturbedJob) {
  const Detection detection = run("reveal", job(60, 700));
  EXPECT_TRUE(detection.insufficient.empty());
  EXPECT_TRUE(detection.episodes.empty());
  EXPECT_EQ(detection.windows.size(), 68U);
}

TEST(RevealPipeline, IsNotFooledBySlowChannelsHeldOnTheGrid) {
  EXPECT_TRUE(run("reveal", job(60, 700, 10)).episodes.empty());
  EXPECT_TRUE(run("reveal", job(60, 700, 10, Kind::gauge)).episodes.empty());
}

TEST(RevealPipeline, IsNotFooledByMissingSamples) {
  Telemetry t = job(60, 700);
  for (std::size_t c = 0; c < 60; ++c) std::fill_n(t.series(c).begin() + 300, 100, std::nan(""));
  EXPECT_TRUE(run("reveal", t).episodes.empty());
  for (std::size_t c = 0; c < 60; ++c) std::fill_n(t.series(c).begin() + 300, 300, std::nan(""));
  EXPECT_TRUE(run("reveal", t).episodes.empty());
}

TEST(RevealPipeline, LabelsTheStartOfTheJobAsEdge) {
  Telemetry t = job(60, 700);
  disturb(t, 0, 190);
  const Detection detection = run("reveal", t);
  ASSERT_EQ(detection.episodes.size(), 1U);
  EXPECT_EQ(detection.episodes[0].labels, std::vector<Label>{Label::edge});
  EXPECT_EQ(detection.episodes[0].methods, std::vector<Method>{Method::interval_scan}) << "nobody else is asked";
  EXPECT_EQ(detection.episodes[0].tier, Tier::none);
}

TEST(RevealPipeline, FindsTwoEventsInOneJob) {
  Telemetry t = job(60, 1400);
  disturb(t, 300, 400);
  disturb(t, 900, 1040, 40, -1500);
  const Detection detection = run("reveal", t);
  ASSERT_EQ(detection.episodes.size(), 2U);
  std::vector<std::size_t> begins{detection.episodes[0].begin, detection.episodes[1].begin};
  std::sort(begins.begin(), begins.end());
  EXPECT_EQ(begins, (std::vector<std::size_t>{300, 900}));
}

TEST(RevealPipeline, FindsAnEventThatHappensTwiceAndNotOneThatTheJobLivesWith) {
  Telemetry t = job(60, 3000);
  disturb(t, 700, 830);
  disturb(t, 2300, 2430);
  const Detection detection = run("reveal", t);
  ASSERT_EQ(detection.episodes.size(), 2U);
  for (const Episode& e : detection.episodes) {
    EXPECT_EQ(e.tier, Tier::strong);
    EXPECT_EQ(e.labels, std::vector<Label>{Label::recurring});
    EXPECT_EQ(e.end - e.begin, 130U);
  }
  for (std::size_t s = 100; s + 130 < 3000; s += 400) disturb(t, s, s + 130);
  EXPECT_TRUE(run("reveal", t).episodes.empty());
}

TEST(RevealPipeline, FindsWhatBeginsLateAndNeverEnds) {
  Telemetry t = job(60, 1500);
  disturb(t, 620, 1500);
  const Detection detection = run("reveal", t);
  ASSERT_EQ(detection.episodes.size(), 1U);
  EXPECT_EQ(detection.episodes[0].tier, Tier::strong);
  EXPECT_EQ(detection.episodes[0].begin, 620U);
  EXPECT_EQ(detection.episodes[0].end, 1475U);  // the last 2.5 s are tear-down
}

TEST(RevealPipeline, FindsAnEventOfTwentyMinutesInAnHour) {
  Telemetry t = job(40, 36000);
  disturb(t, 13000, 25000, 30);
  const Detection detection = run("reveal", t, {.keep_windows = false});
  ASSERT_EQ(detection.episodes.size(), 1U);
  EXPECT_EQ(detection.episodes[0].tier, Tier::strong);
  EXPECT_EQ(detection.episodes[0].begin, 13000U);
  EXPECT_EQ(detection.episodes[0].end, 25000U);
}

TEST(RevealPipeline, FindsAnEventInALongJobOnceAlthoughBlocksOverlap) {
  Telemetry t = job(60, 26000);
  disturb(t, 11900, 12080);
  const Detection detection = run("reveal", t);
  ASSERT_EQ(detection.episodes.size(), 1U);
  EXPECT_EQ(detection.episodes[0].begin, 11900U);
  EXPECT_EQ(detection.episodes[0].end, 12080U);
}

TEST(RevealPipeline, CountsEachOfTwoLikeEventsOnceAlthoughOnlyOneBlockSeesBoth) {
  for (const std::size_t channels : {14, 40}) {  // so that the signatures of the events are alike, and not
    Telemetry t = job(60, 38000);
    disturb(t, 13000, 13180, channels);
    disturb(t, 24800, 24980, channels);
    std::vector<std::size_t> begins;
    for (const Episode& episode : run("reveal", t, {.keep_windows = false}).episodes) {
      EXPECT_EQ(episode.tier, Tier::strong);
      begins.push_back(episode.begin);
    }
    std::sort(begins.begin(), begins.end());
    EXPECT_EQ(begins, (std::vector<std::size_t>{13000, 24800})) << channels;
  }
}

TEST(RevealPipeline, KeepsTheErrorsInAnEventThatTwoBlocksSee) {
  Telemetry t = job(60, 26000);
  disturb(t, 11900, 12080);
  for (std::size_t c = 0; c < 25; ++c) {  // so that the first block sees the event less clearly
    for (std::size_t s = 2000 + 200 * c; s < 2100 + 200 * c; ++s) t.series(c)[s] += 3000;
  }
  t.channels.push_back({.metric = "net.rx_dropped", .kind = Kind::counter, .subsystem = Subsystem::network});
  t.values.resize(t.values.size() + t.samples);
  for (std::size_t s = 11950; s < 12000; s += 5) t.series(60)[s] = 20;
  const Detection detection = run("reveal", t, {.keep_windows = false});
  ASSERT_FALSE(detection.episodes.empty());
  const Episode& episode = detection.episodes.front();
  EXPECT_EQ(episode.begin, 11900U);
  EXPECT_EQ(std::count(episode.methods.begin(), episode.methods.end(), Method::error_counters), 1);
}

TEST(RevealPipeline, WorksOnMinuteSamplesWithoutTrimming) {
  Telemetry t = job(60, 300);
  t.step_seconds = 60;
  for (Channel& channel : t.channels) channel.period_seconds = 60;
  disturb(t, 100, 124);
  const DetectOptions options{.window_seconds = 600, .stride_seconds = 120};
  const Detection detection = run("reveal", t, options);
  ASSERT_EQ(detection.episodes.size(), 1U);
  EXPECT_EQ(detection.episodes[0].begin, 100U);
  EXPECT_EQ(detection.episodes[0].end, 124U);
}

TEST(RevealPipeline, SaysHowMuchItNeedsOfAShortJob) {
  EXPECT_EQ(run("reveal", job(5, 60)).insufficient, "6.0 s were recorded, at least 32 s are needed");
  EXPECT_EQ(run("reveal", Telemetry{}).insufficient, "0.0 s were recorded, at least 32 s are needed");
  EXPECT_EQ(run("reveal", job(5, 200)).insufficient, "20.0 s were recorded, at least 32 s are needed");
  EXPECT_TRUE(run("reveal", job(5, 330)).insufficient.empty());
}

TEST(RevealPipeline, MarksTheWindowsOfAnEpisodeAndScoresThemHighest) {
  Telemetry t = job(60, 700);
  disturb(t, 300, 420);
  const DetectOptions options{.every_channel = true};
  const Detection detection = run("reveal", t, options);
  const Episode& episode = detection.episodes.at(0);
  EXPECT_EQ(episode.reasons.size(), 60U);
  double inside = 1e9;
  double outside = 0;
  for (const WindowScore& w : detection.windows) {
    const bool in = w.begin >= 300 && w.end <= 420;
    if (in) {
      EXPECT_EQ(w.tier, Tier::strong) << w.begin;
      inside = std::min(inside, w.score);
    } else if (w.end <= 300 || w.begin >= 420) {
      EXPECT_EQ(w.tier, Tier::none) << w.begin;
      outside = std::max(outside, w.score);
    }
  }
  EXPECT_GT(inside, outside);
  EXPECT_EQ(detection.windows[30].reasons.size(), 60U);
  EXPECT_LT(detection.windows[30].reasons[0].channel, 40U);
  EXPECT_EQ(episode.first_window, 29U);
  EXPECT_EQ(episode.last_window, 40U);
}

TEST(RevealPipeline, GivesTheSameResultTwice) {
  Telemetry t = job(60, 700);
  disturb(t, 300, 420);
  const Detection a = run("reveal", t);
  const Detection b = run("reveal", t);
  EXPECT_EQ(a.episodes[0].score, b.episodes[0].score);
  EXPECT_EQ(a.episodes[0].methods, b.episodes[0].methods);
  EXPECT_EQ(a.episodes[0].claim, b.episodes[0].claim);
}

TEST(PaperPipeline, FlagsTheTopPercentOfEachDetectorByConstruction) {
  const Detection detection = run("paper", job(20, 3030));  // 301 windows: the top 1 % are 3 or 4
  const auto flagged = std::count_if(detection.windows.begin(), detection.windows.end(),
                                     [](const WindowScore& w) { return w.agreement > 0; });
  int votes = 0;
  for (const WindowScore& w : detection.windows) votes += w.agreement;
  EXPECT_EQ(votes, 9);  // three detectors, 300 of 301 windows ranked below: 3 each
  EXPECT_LE(flagged, votes);
  for (const Episode& e : detection.episodes) {
    EXPECT_EQ(e.tier, Tier::strong);
    EXPECT_EQ(e.agreement, static_cast<int>(e.methods.size()));
    EXPECT_FALSE(e.claim.empty());
  }
}

TEST(PaperPipeline, MergesAdjacentWindowsAndAttributesThemToMetricAndFeature) {
  Telemetry t = job(20, 3030);
  t.channels[4].metric = "cpu.user";
  t.channels[4].instance = "cpu0";
  for (std::size_t s = 1500; s < 1530; ++s) t.series(4)[s] += 100000;
  const Detection detection = run("paper", t);
  const Episode& top = detection.episodes.at(0);
  EXPECT_LE(top.begin, 1500U);
  EXPECT_GE(top.end, 1530U);
  EXPECT_GT(top.last_window, top.first_window);
  EXPECT_EQ(top.reasons.at(0).channel, 4U);
  EXPECT_EQ(top.subsystem, Subsystem::cpu);
}

TEST(PaperPipeline, NeedsThirtyWindows) {
  EXPECT_EQ(run("paper", job(5, 140)).insufficient, "14.0 s were recorded, at least 32 s are needed");
}

TEST(Claims, SpeakTheWordsOfThePapersTable) {
  const Channel cpu{.metric = "cpu.user"};
  EXPECT_EQ(paper_claim(cpu, {.feature = "variance"}),
            "CPU user time shows different within-window variance relative to baseline.");
  EXPECT_EQ(paper_claim(cpu, {.feature = "autocorrelation_lag_1"}),
            "CPU user time exhibits different lag-1 autocorrelation with the baseline.");
  const Channel disk{.metric = "disk.rsectors", .instance = "vda"};
  EXPECT_EQ(paper_claim(disk, {.feature = "maximum"}),
            "Disk read sectors of vda's maximum exceeds the baseline reference, reflecting a single-window spike.");
  EXPECT_EQ(paper_claim(disk, {.feature = "standard_deviation"}),
            "Disk read sectors of vda shows a different standard deviation versus baseline.");
}

TEST(Claims, EveryFeatureHasItsPhrase) {
  for (const Feature& feature : features()) {
    const std::string claim = paper_claim({.metric = "m"}, {.feature = std::string(feature.name)});
    EXPECT_EQ(claim.find(" in " + std::string(feature.name)), std::string::npos) << claim;
  }
}

TEST(Claims, SpeakPlainlyWithTwoNumbersAndAUnit) {
  const Channel time{.metric = "cpu.user", .instance = "cpu1", .kind = Kind::counter, .unit = Unit::nanoseconds};
  EXPECT_EQ(plain_claim(time, {.observed = 9.8e8, .expected = 4.3e8}, 15.62),
            "CPU user time of cpu1 rose to 0.98 cpus from 0.43 cpus for 15.6 s.");
  const Channel dirty{.metric = "mem.dirty", .kind = Kind::gauge, .unit = Unit::bytes};
  EXPECT_EQ(plain_claim(dirty, {.observed = 3.0 * (1 << 20), .expected = 1.5 * (1 << 30)}, 10),
            "Dirty page cache fell to 0.00293 GiB from 1.5 GiB for 10 s.");
  const Channel process{.metric = "process.cpu_time",
                        .instance = "rank2",
                        .kind = Kind::counter,
                        .unit = Unit::nanoseconds,
                        .program = "python3"};
  EXPECT_EQ(plain_claim(process, {.observed = 9.8e8, .expected = 4.3e8}, 15.62),
            "CPU time of python3 (rank 2) rose to 0.98 cpus from 0.43 cpus for 15.6 s.");
  EXPECT_EQ(plain_claim(dirty, {.observed = 2048, .expected = std::numeric_limits<double>::quiet_NaN()}, 150),
            "Dirty page cache was 2 KiB for 2 min 30 s; nothing else of it was measured.");
}

}  // namespace
}  // namespace reveal::tests::pipeline_test
