// What each detector means by an episode: shares of channels, and nothing where there is too little to say.
#include "postproc/detect/windows/episode_contributions.h"

#include <gtest/gtest.h>

#include <random>

#include "postproc/report/report.h"
#include "report_samples.h"

namespace reveal {
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

TEST(EpisodeContributions, AreTheSameTwice) {
  const Telemetry telemetry = disturbed(180, 90, 102);
  Episode first{.begin = 900, .end = 1020};
  Episode second = first;
  add_contributions(telemetry, {}, 1200, first);
  add_contributions(telemetry, {}, 1200, second);
  ASSERT_EQ(first.contributions.size(), second.contributions.size());
  for (std::size_t i = 0; i < first.contributions.size(); ++i) {
    for (std::size_t c = 0; c < first.contributions[i].channels.size(); ++c) {
      EXPECT_EQ(first.contributions[i].channels[c].share, second.contributions[i].channels[c].share);
    }
  }
}

TEST(EpisodeContributions, AreMissingWhereThereIsTooLittle) {
  Episode brief{.begin = 50, .end = 80};
  add_contributions(disturbed(12, 5, 8), {}, 1200, brief);
  EXPECT_TRUE(brief.contributions.empty());
  Telemetry constant = disturbed(180, 90, 102);
  std::fill(constant.values.begin(), constant.values.end(), 1.0);
  Episode episode{.begin = 900, .end = 1020};
  add_contributions(constant, {}, 1200, episode);
  EXPECT_TRUE(episode.contributions.empty());
}

TEST(EpisodeContributions, AreInTheDataAndBehindADisclosureOnThePageOnly) {
  Report report = samples::outsider(1);
  ASSERT_FALSE(report.episodes.empty());
  const std::string text = render_text(report);
  report.episodes[0].detectors = {{"MAHA", {{"disk.io_time", "vda", 0.41}, {"cpu.user", "cpu1", -0.2}}}};
  const Report read = parse_report(render_json(report));
  ASSERT_EQ(read.episodes[0].detectors.size(), 1U);
  EXPECT_EQ(read.episodes[0].detectors[0].method, "MAHA");
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
}  // namespace reveal
