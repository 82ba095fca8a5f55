// The ensemble of window detectors: its parts against values by hand or by another way to compute them, and damaged and
// unusual input.
#include "postproc/detect/windows/ensemble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "postproc/detect/pipeline.h"
#include "postproc/detect/windows/contributions.h"
#include "postproc/detect/windows/robust_windows.h"
#include "postproc/detect/windows/second_opinion.h"
#include "postproc/detect/windows/window_detector.h"
#include "postproc/detect/windows/window_episodes.h"
#include "postproc/numerics/principal_components.h"

namespace reveal::tests::ensemble_test {
namespace {

Telemetry job(std::size_t channels, std::size_t samples, double step_seconds = 60) {
  std::mt19937_64 engine(17);
  Telemetry t{.step_seconds = step_seconds, .samples = samples};
  t.values.resize(channels * samples);
  for (std::size_t c = 0; c < channels; ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c), .period_seconds = step_seconds});
    for (std::size_t s = 0; s < samples; ++s) t.series(c)[s] = static_cast<double>(engine() % 1000);
  }
  return t;
}

WindowGrid grid_of(const Telemetry& t) {
  return window_grid(30, 10, 1, 0, t.samples);
}

void disturb(Telemetry& t, std::size_t begin, std::size_t end, std::size_t channels = 5) {
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t s = begin; s < end; ++s) t.series(c)[s] += 3000;
  }
}

void expect_defined(const WindowRanking& ranking, std::size_t windows) {
  ASSERT_EQ(ranking.score.size(), windows);
  for (const double score : ranking.score) EXPECT_TRUE(std::isfinite(score));
  for (const auto& member : ranking.members) {
    ASSERT_EQ(member.size(), windows);
    for (const double score : member) EXPECT_TRUE(std::isfinite(score));
  }
  for (const auto& reasons : ranking.reasons) {
    for (const Reason& reason : reasons) EXPECT_TRUE(std::isfinite(reason.share) && reason.share >= 0);
  }
}

WindowRanking rank(const Telemetry& t) {
  return rank_windows(t, grid_of(t), 0, Explain::every_channel);
}

TEST(RobustScale, IsTheLargerOfTwoThatIgnoreOutliers) {
  std::vector<double> nine{1, 2, 3, 4, 5, 6, 7, 8, 1000};
  const RobustScale scale = robust_scale(nine);
  EXPECT_DOUBLE_EQ(scale.centre, 5);
  // q95 = 8 + 0.6 * 992, q5 = 1.4: the tail is wider than 1.4826 * 2.
  EXPECT_NEAR(scale.scale, (8 + 0.6 * 992 - 1.4) / 3.29, 1e-12);
  std::vector<double> rare(100, 7.0);
  rare[3] = 8;
  EXPECT_NEAR(robust_scale(rare).scale, 1.2533 * 0.01, 1e-12);
  std::vector<double> constant(10, 7.0);
  EXPECT_EQ(robust_scale(constant).scale, 0);
  std::vector<double> one{4.0};
  EXPECT_EQ(robust_scale(one).scale, 0);
}

TEST(WindowDetectors, ShareOneScale) {
  const std::vector<double> scores = robust_score({0, 1, 2, 3, 4, 5, 6, 7, 100});
  EXPECT_DOUBLE_EQ(scores[4], 0);
  EXPECT_DOUBLE_EQ(scores[8], 48);
  EXPECT_EQ(robust_score(std::vector<double>(5, 3.0)), std::vector<double>(5));
  EXPECT_EQ(smooth({4, 0, 0, 8}), (std::vector<double>{3, 1, 2, 6}));
  EXPECT_TRUE(smooth({}).empty());
}

TEST(WindowDetectors, AreRegisteredOnceEach) {
  std::vector<Method> methods;
  for (const WindowDetector& detector : window_detectors()) methods.push_back(detector.method);
  EXPECT_EQ(names_of(methods), (std::vector<std::string>{"R-Z", "R-MAHA", "R-IF", "KNN", "KNN-L", "GMM"}));
}

TEST(WindowDetectors, EachSeesAPlainEvent) {
  Telemetry t = job(20, 3030);
  disturb(t, 1500, 1530, 10);
  constexpr Baseline kWhole[] = {Baseline::whole};
  const auto views = robust_windows(t, grid_of(t), kWhole, 0);
  const auto strangest = [](const std::vector<double>& score) {
    return std::max_element(score.begin(), score.end()) - score.begin();
  };
  for (const WindowDetector& detector : window_detectors()) {
    const std::vector<double> score = detector.score(views[0], 0);
    EXPECT_NEAR(strangest(score), 150, 2) << name_of(detector.method);
    EXPECT_GT(score[150], 3) << name_of(detector.method);
    EXPECT_EQ(score, detector.score(views[0], 0)) << name_of(detector.method);
  }
}

TEST(Contributions, SumUpToTheDistanceAndNameTheDisturbedChannels) {
  Telemetry t = job(20, 3030);
  disturb(t, 1500, 1530);
  constexpr Baseline kWhole[] = {Baseline::whole};
  const auto views = robust_windows(t, grid_of(t), kWhole, 0);
  const std::vector<std::size_t> at{150, 20};
  const std::vector<Contributions> both = contributions(t, grid_of(t), views[0], at, 0);
  const PrincipalComponents& pc = views[0].components;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto row = pc.coordinates.row(static_cast<Eigen::Index>(at[k])).head(views[0].kept);
    const double square = row.cwiseAbs2().cwiseQuotient(pc.variances.head(views[0].kept).transpose()).mean();
    double sum = 0;
    for (const double share : both[k].mahalanobis) sum += share;
    EXPECT_NEAR(sum, square, 1e-4 * square);
    double forest = 0;
    for (const double share : both[k].forest) forest += share;
    EXPECT_NEAR(forest, 1, 1e-9);
  }
  for (const auto& shares : {both[0].mahalanobis, both[0].neighbours, both[0].forest}) {
    EXPECT_LT(std::max_element(shares.begin(), shares.end()) - shares.begin(), 5);
  }
}

TEST(Contributions, OfAnEpisodeNameTheDisturbedChannelsPerDetector) {
  Telemetry t = job(20, 3030);
  disturb(t, 1500, 1530);
  Episode episode{.begin = 1500, .end = 1530, .methods = {Method::interval_scan}};
  add_second_opinion(t, 0, {0, t.samples}, {.window_seconds = 1800, .stride_seconds = 600},
                     SecondOpinion::methods_and_channels, episode);
  ASSERT_EQ(episode.contributions.size(), 3U);
  for (const DetectorShares& view : episode.contributions) {
    ASSERT_FALSE(view.channels.empty()) << name_of(view.method);
    EXPECT_LT(view.channels.front().channel, 5U) << name_of(view.method);
    EXPECT_GT(view.channels.front().share, 1.0 / 20) << name_of(view.method) << ": an even share is no news";
    double sum = 0;
    for (const ChannelShare& part : view.channels) sum += std::abs(part.share);
    EXPECT_LE(sum, 1 + 1e-9) << name_of(view.method);
  }
}

TEST(Ensemble, RanksTheEventFirstAndNamesItsChannels) {
  Telemetry t = job(20, 3030);
  disturb(t, 1500, 1530);
  const WindowRanking ranking = rank(t);
  expect_defined(ranking, 301);
  EXPECT_GT(ranking.score[150], 5);
  EXPECT_EQ(ranking.reasons[150].size(), 20U);
  for (std::size_t r = 0; r < 5; ++r) EXPECT_LT(ranking.reasons[150][r].channel, 5U);
  double usual = 0;
  for (std::size_t w = 0; w < 145; ++w) usual = std::max(usual, ranking.score[w]);
  EXPECT_LT(usual, ranking.score[150] / 2);
  EXPECT_EQ(ranking.score, rank(t).score);
}

TEST(Ensemble, RaisesTheNeighboursOfAStrangeWindowByWhatTheyShare) {
  const std::vector<double> score{0, 9, 3, 0, 0};
  const std::vector<double> raised = raised_by_neighbours(score, {.length = 30, .stride = 10, .count = score.size()});
  EXPECT_EQ(raised[1], 9);
  EXPECT_NEAR(raised[0], 3, 1e-12);
  EXPECT_NEAR(raised[2], 5, 1e-12);
  EXPECT_NEAR(raised[3], 1, 1e-12);
  EXPECT_EQ(raised[4], 0);
  EXPECT_EQ(raised_by_neighbours(score, {.length = 30, .stride = 30, .count = score.size()}), score);
}

TEST(Ensemble, IsNotSilencedByDetectorsForWhichAllWindowsAreAlike) {
  for (const std::size_t length : {20U, 150U}) {  // 1.7 % of the windows, and 6 %
    Telemetry t = job(3, 3030);
    std::fill(t.values.begin(), t.values.end(), 5.0);  // the core has no variance: R-MAHA and R-IF see nothing
    for (std::size_t c = 0; c < 3; ++c) std::fill_n(t.series(c).begin() + 1500, length, 8.0);
    const WindowRanking ranking = rank(t);
    expect_defined(ranking, 301);
    EXPECT_GT(*std::max_element(ranking.score.begin() + 147, ranking.score.begin() + 166), 3) << length;
    EXPECT_LT(*std::max_element(ranking.score.begin(), ranking.score.begin() + 140), 1) << length;
  }
}

TEST(Ensemble, RanksLongSeriesInParts) {
  Telemetry t = job(3, 26000);
  disturb(t, 9000, 9040, 3);
  disturb(t, 20000, 20040, 3);
  const WindowRanking ranking = rank_windows(t, grid_of(t), 0, Explain::no);
  expect_defined(ranking, 2598);
  EXPECT_TRUE(ranking.reasons.empty());
  EXPECT_GT(ranking.score[901], 5);
  EXPECT_GT(ranking.score[2001], 5);
}

TEST(WindowEpisodes, KeepWithinTheBudgetAndAskEveryDetectorForAStrongOne) {
  WindowRanking ranking{.score = std::vector<double>(1000), .methods = {Method::robust_z, Method::neighbours}};
  for (const std::size_t peak : {100U, 300U, 500U}) {
    ranking.score[peak - 1] = 2;
    ranking.score[peak] = 4 + static_cast<double>(peak) / 1000;
  }
  ranking.members = {ranking.score, ranking.score};
  ranking.members[1][500] = ranking.members[1][499] = 0;  // the second does not see it
  const std::vector<WindowRun> runs = window_runs(ranking, 7);
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[0].first, 499U);
  EXPECT_EQ(runs[0].last, 500U);
  EXPECT_EQ(runs[0].tier, Tier::weak);
  EXPECT_EQ(runs[0].methods, std::vector<Method>{Method::robust_z});
  EXPECT_EQ(runs[1].tier, Tier::strong);
  EXPECT_DOUBLE_EQ(runs[1].score, 4.3);
  EXPECT_EQ(runs[2].tier, Tier::strong);

  const std::vector<WindowRun> day = window_runs(ranking, 1);  // one a day at most
  ASSERT_EQ(day.size(), 2U);
  EXPECT_EQ(day[0].tier, Tier::weak);
  EXPECT_DOUBLE_EQ(day[1].score, 4.3);
  EXPECT_TRUE(window_runs({.score = std::vector<double>(100)}, 7).empty());
}

TEST(WindowEpisodes, OfAServerSayWhereAndWhat) {
  Telemetry t = job(20, 3030);
  for (std::size_t c = 0; c < 5; ++c) t.channels[c].subsystem = Subsystem::storage;
  disturb(t, 1500, 1560);
  const DetectOptions options{.window_seconds = 1800, .stride_seconds = 600};
  const Detection detection = find_pipeline("reveal").run(t, options);
  ASSERT_FALSE(detection.episodes.empty());
  const Episode& episode = detection.episodes.front();
  EXPECT_EQ(episode.tier, Tier::strong);
  EXPECT_NEAR(static_cast<double>(episode.begin), 1500, 20);
  EXPECT_NEAR(static_cast<double>(episode.end), 1560, 20);
  EXPECT_EQ(episode.subsystem, Subsystem::storage);
  EXPECT_LT(episode.reasons.front().channel, 5U);
  EXPECT_FALSE(episode.claim.empty());
  EXPECT_EQ(detection.windows[(episode.first_window + episode.last_window) / 2].tier, Tier::strong);
}

TEST(WindowEpisodes, AreNotInReportsWhoseWindowsAreSingleSamples) {
  Telemetry t = job(20, 3030, 5);
  disturb(t, 1500, 1502, 20);
  EXPECT_FALSE(find_pipeline("reveal").run(t, {}).episodes.empty());
  const Detection report = find_pipeline("reveal").run(t, {.keep_windows = false});
  EXPECT_TRUE(report.windows.empty());
  for (const Episode& episode : report.episodes) EXPECT_EQ(episode.methods.front(), Method::interval_scan);
}

// Damaged and unusual input, in both clocks: servers (episodes from windows) and jobs (episodes from the scan).
void expect_survived(const Telemetry& telemetry) {
  expect_defined(rank(telemetry), grid_of(telemetry).count);
  for (const double step : {60.0, 0.1}) {
    Telemetry t = telemetry;
    t.step_seconds = step;
    const DetectOptions options{.window_seconds = 30 * step, .stride_seconds = 10 * step, .every_channel = true};
    for (const char* pipeline : {"reveal", "paper"}) {
      const Detection detection = find_pipeline(pipeline).run(t, options);
      for (const WindowScore& window : detection.windows) {
        EXPECT_TRUE(std::isfinite(window.score)) << pipeline << " " << window.begin;
        for (const Reason& reason : window.reasons) EXPECT_TRUE(std::isfinite(reason.share)) << pipeline;
      }
      for (const Episode& episode : detection.episodes) {
        EXPECT_TRUE(std::isfinite(episode.score)) << pipeline;
        for (const Reason& reason : episode.reasons) EXPECT_TRUE(std::isfinite(reason.share)) << pipeline;
      }
    }
  }
}

TEST(BadInput, ConstantChannels) {
  Telemetry t = job(6, 600);
  for (std::size_t c = 0; c < 3; ++c) std::fill_n(t.series(c).begin(), 600, 4.0);
  expect_survived(t);
  for (std::size_t c = 3; c < 6; ++c) std::fill_n(t.series(c).begin(), 600, -1.0);
  expect_survived(t);
  for (const double score : rank(t).score) EXPECT_EQ(score, 0);
}

TEST(BadInput, ChannelsThatAreNotMeasured) {
  Telemetry t = job(6, 600);
  for (std::size_t c = 0; c < 3; ++c) std::fill_n(t.series(c).begin(), 600, std::nan(""));
  expect_survived(t);
  for (std::size_t c = 3; c < 6; ++c) std::fill_n(t.series(c).begin(), 600, std::nan(""));
  expect_survived(t);
  expect_survived(Telemetry{.step_seconds = 60, .samples = 600});
}

TEST(BadInput, GapsAndWindowsAcrossThem) {
  Telemetry t = job(6, 900);
  for (std::size_t c = 0; c < 6; ++c) std::fill_n(t.series(c).begin() + 305, 200, std::nan(""));
  for (std::size_t s = 0; s < 900; s += 2) t.series(2)[s] = std::nan("");
  expect_survived(t);
  const WindowRanking ranking = rank(t);
  // A gap is not an event: no window inside or across it is strange.
  for (std::size_t w = 28; w < 52; ++w) EXPECT_LT(ranking.score[w], 3) << w;
}

TEST(BadInput, OneWindowTwoWindowsNone) {
  for (const std::size_t samples : {30U, 40U, 29U, 1U, 0U}) expect_survived(job(4, samples));
  const WindowRanking ranking = rank(job(4, 40));
  EXPECT_EQ(ranking.score, std::vector<double>(2));
}

TEST(BadInput, MoreChannelsThanWindows) {
  expect_survived(job(300, 400));
}

TEST(BadInput, ValuesAtTheEndOfTheScale) {
  Telemetry t = job(6, 600);
  for (std::size_t s = 0; s < 600; ++s) {
    t.series(0)[s] = (s % 7 == 0 ? 1.7 : -1.7) * 1e308;
    t.series(1)[s] *= 1e300;
    t.series(2)[s] *= 1e-310;
    t.series(3)[s] += 1e15;
  }
  t.series(4)[300] = 1e300;
  t.series(5)[300] = std::numeric_limits<double>::infinity();
  expect_survived(t);
}

TEST(BadInput, CopiesOfOneChannel) {
  Telemetry t = job(12, 600);
  for (std::size_t c = 1; c < 12; ++c) std::copy_n(t.series(0).begin(), 600, t.series(c).begin());
  expect_survived(t);
}

TEST(BadInput, FiftyThousandChannels) {
  const Telemetry t = job(50000, 340);
  expect_defined(rank_windows(t, grid_of(t), 0, Explain::no), 32);
}

}  // namespace
}  // namespace reveal::tests::ensemble_test
