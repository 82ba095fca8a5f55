// The window detectors that confirm an episode, and their reasons; none if there is too little data.
#include "postproc/detect/windows/second_opinion.h"

#include <gtest/gtest.h>

#include <random>

#include "postproc/report/report.h"
#include "report_samples.h"

namespace reveal::tests::second_opinion_test {
namespace {

/// Twenty noisy channels at 10 Hz; the first five rise from `begin` to `end` seconds.
Telemetry disturbed(double seconds, double begin, double end) {
  Telemetry telemetry;
  telemetry.samples = static_cast<std::size_t>(seconds / telemetry.step_seconds);
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 1);
  for (std::size_t c = 0; c < 20; ++c) {
    telemetry.channels.push_back({.metric = "m" + std::to_string(c), .kind = Kind::gauge});
    for (std::size_t t = 0; t < telemetry.samples; ++t) {
      const double second = static_cast<double>(t) * telemetry.step_seconds;
      telemetry.values.push_back(10 + normal(random) + (c < 5 && second >= begin && second < end ? 30 : 0));
    }
  }
  return telemetry;
}

void explain(const Telemetry& telemetry, Episode& episode) {
  add_second_opinion(telemetry, 0, surroundings(episode, telemetry.samples, {}), {},
                     SecondOpinion::methods_and_channels, episode);
}

TEST(SecondOpinion, IsThatOfTheSameDetectorsInVotesAndInChannels) {
  const Telemetry telemetry = disturbed(180, 90, 102);
  Episode episode{.begin = 900, .end = 1020, .methods = {Method::interval_scan, Method::error_counters}};
  explain(telemetry, episode);
  // Five of twenty independent channels: no common component moves, which is all that R-MAHA and R-IF look at.
  EXPECT_EQ(names_of(episode.methods), (std::vector<std::string>{"GAP", "R-Z", "KNN", "KNN-L", "GMM", "COUNT"}));
  EXPECT_EQ(episode.agreement, 6);
  ASSERT_EQ(episode.contributions.size(), 1U);
  EXPECT_EQ(episode.contributions[0].method, Method::neighbours);
  EXPECT_LT(episode.contributions[0].channels.front().channel, 5U);
  Episode quiet{.begin = 300, .end = 420, .methods = {Method::interval_scan}};
  explain(telemetry, quiet);
  EXPECT_EQ(quiet.methods, std::vector<Method>{Method::interval_scan});
}

TEST(SecondOpinion, IsTheSameTwice) {
  const Telemetry telemetry = disturbed(180, 90, 102);
  Episode first{.begin = 900, .end = 1020, .methods = {Method::interval_scan}};
  Episode second = first;
  explain(telemetry, first);
  explain(telemetry, second);
  ASSERT_EQ(first.contributions.size(), second.contributions.size());
  for (std::size_t i = 0; i < first.contributions.size(); ++i) {
    for (std::size_t c = 0; c < first.contributions[i].channels.size(); ++c) {
      EXPECT_EQ(first.contributions[i].channels[c].share, second.contributions[i].channels[c].share);
    }
  }
}

TEST(SecondOpinion, IsMissingWhereThereIsTooLittle) {
  Episode brief{.begin = 50, .end = 80, .methods = {Method::interval_scan}};
  explain(disturbed(12, 5, 8), brief);
  EXPECT_TRUE(brief.contributions.empty());
  Telemetry constant = disturbed(180, 90, 102);
  std::fill(constant.values.begin(), constant.values.end(), 1.0);
  Episode episode{.begin = 900, .end = 1020, .methods = {Method::interval_scan}};
  explain(constant, episode);
  EXPECT_TRUE(episode.contributions.empty());
}

TEST(SecondOpinion, OnChannelsIsInTheDataAndBehindADisclosureOnThePageOnly) {
  Report report = samples::outsider(1);
  ASSERT_FALSE(report.episodes.empty());
  const std::string text = render_text(report);
  const std::vector<ReportEpisode::Contribution> shares{{"disk.io_time", "vda", 0.41}, {"cpu.user", "cpu1", -0.2}};
  report.episodes[0].detectors = {{Method::neighbours, shares}, {Method::robust_mahalanobis, shares}};
  std::string json = render_json(report);
  json.replace(json.find("\"KNN\""), 5, "\"LATER\"");
  const Report read = parse_report(json);
  ASSERT_EQ(read.episodes[0].detectors.size(), 1U) << "the reader drops a detector that it does not know";
  EXPECT_EQ(read.episodes[0].detectors[0].method, Method::robust_mahalanobis);
  ASSERT_EQ(read.episodes[0].detectors[0].channels.size(), 2U);
  EXPECT_EQ(read.episodes[0].detectors[0].channels[0].instance, "vda");
  EXPECT_EQ(read.episodes[0].detectors[0].channels[1].share, -0.2);
  const std::string page = render_html(report);
  const std::size_t opened = page.find("<details><summary>by detector");
  ASSERT_NE(opened, std::string::npos);
  EXPECT_NE(page.find("-20.0 %", opened), std::string::npos);
  EXPECT_EQ(render_text(report), text);
}

}  // namespace
}  // namespace reveal::tests::second_opinion_test
