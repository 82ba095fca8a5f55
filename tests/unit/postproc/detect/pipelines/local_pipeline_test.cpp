// The pipeline `local`: finds a step on a drifting host, and says so when there is too little.
#include <gtest/gtest.h>

#include <random>

#include "postproc/detect/pipeline.h"

namespace reveal {
namespace {

/// A host sampled once a minute whose five channels drift for days; `height`: of an hour's step in three of them.
Telemetry host(double height, std::size_t samples = 4000) {
  Telemetry telemetry{.step_seconds = 60, .samples = samples};
  std::mt19937 random(9);
  std::normal_distribution<double> normal(0, 1);
  for (std::size_t c = 0; c < 5; ++c) {
    telemetry.channels.push_back({.metric = "m" + std::to_string(c), .kind = Kind::gauge});
    for (std::size_t t = 0; t < samples; ++t) {
      const bool event = c < 3 && t >= 2000 && t < 2060;
      telemetry.values.push_back(0.05 * static_cast<double>(t) + normal(random) + (event ? height : 0));
    }
  }
  return telemetry;
}

TEST(LocalPipeline, FindsAStepOnAHostThatDrifts) {
  const Detection found = find_pipeline("local").run(host(30), {.window_seconds = 1800, .stride_seconds = 600});
  ASSERT_FALSE(found.episodes.empty());
  const Episode& best = found.episodes.front();
  EXPECT_EQ(best.methods, std::vector<std::string>{"LOCAL"});
  EXPECT_LT(best.begin, 2060U);
  EXPECT_GT(best.end, 2000U);
  ASSERT_FALSE(best.reasons.empty());
  EXPECT_LT(best.reasons.front().channel, 3U);
  EXPECT_FALSE(best.claim.empty());
  EXPECT_EQ(found.windows.size(), 398U);
}

TEST(LocalPipeline, SaysWhenThereIsTooLittle) {
  const Detection found = find_pipeline("local").run(host(30, 200), {.window_seconds = 1800, .stride_seconds = 600});
  EXPECT_TRUE(found.episodes.empty());
  EXPECT_NE(found.insufficient.find("12000.0 s were recorded, at least 19200 s are needed"), std::string::npos);
}

}  // namespace
}  // namespace reveal
