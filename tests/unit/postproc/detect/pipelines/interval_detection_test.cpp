#include "postproc/detect/pipelines/interval_detection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/postproc/synthetic_node.h"

namespace reveal::tests::interval_detection_test {
namespace {

/// Three quarters of an hour, with an outsider of twenty seconds and one of eight minutes.
Telemetry disturbed_job() {
  return SyntheticNode().record(2700, [](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 500 && second < 520) demand.outsider[0] = 0.9;
    if (second >= 1500 && second < 1980) demand.outsider[1] = 0.7;
  });
}

void expect_same(const Detection& pieces, const Detection& whole) {
  ASSERT_EQ(pieces.episodes.size(), whole.episodes.size());
  for (std::size_t i = 0; i < whole.episodes.size(); ++i) {
    const Episode& expected = whole.episodes[i];
    const Episode& got = pieces.episodes[i];
    EXPECT_EQ(got.begin, expected.begin);
    EXPECT_EQ(got.end, expected.end);
    EXPECT_EQ(got.tier, expected.tier);
    EXPECT_EQ(got.labels, expected.labels);
    EXPECT_EQ(got.subsystem, expected.subsystem);
    EXPECT_DOUBLE_EQ(got.score, expected.score);
    if (expected.tier == Tier::none) continue;
    EXPECT_EQ(got.methods, expected.methods);
    ASSERT_EQ(got.contributions.size(), expected.contributions.size());
    for (std::size_t m = 0; m < expected.contributions.size(); ++m) {
      ASSERT_FALSE(expected.contributions[m].channels.empty());
      EXPECT_EQ(got.contributions[m].channels[0].channel, expected.contributions[m].channels[0].channel);
      EXPECT_EQ(got.contributions[m].channels[0].share, expected.contributions[m].channels[0].share);
    }
  }
}

Detection in_pieces(const Telemetry& job, const DetectOptions& options) {
  const Telemetry shape = cut(job, 0, 0);
  const auto detection = find_pipeline("reveal").start(shape, job.samples, options);
  for (std::size_t begin = 0; begin < job.samples; begin += detection->piece_samples()) {
    detection->add(cut(job, begin, std::min(detection->piece_samples(), job.samples - begin)));
  }
  return detection->finish([&](std::size_t begin, std::size_t samples) { return cut(job, begin, samples); });
}

TEST(IntervalDetection, FindsInPiecesWhatTheJobInMemoryShows) {
  const Telemetry job = disturbed_job();
  const Pipeline& pipeline = find_pipeline("reveal");
  const Detection whole = pipeline.run(job, {.keep_windows = false});
  ASSERT_TRUE(std::any_of(whole.episodes.begin(), whole.episodes.end(), [](const Episode& episode) {
    return episode.tier == Tier::strong && episode.begin > 4980 && episode.end < 5220;
  }));

  WindowPool windows;
  for (const bool in_background : {false, true}) {
    DetectOptions options{.keep_windows = false, .in_background = in_background};
    expect_same(in_pieces(job, options), whole);
    options.windows = &windows;  // in memory of a job that is a little shorter, and of the same one
    static_cast<void>(in_pieces(cut(job, 100, job.samples - 100), options));
    for (int i = 0; i < 2; ++i) expect_same(in_pieces(job, options), whole);
  }
}

/// An hour and a quarter with an outsider of 25 s every `period` seconds.
std::size_t reported(double period) {
  const Telemetry job = SyntheticNode().record(4500, [period](double second, SyntheticNode::Demand& demand) {
    SyntheticNode::training(second, demand);
    const double since = std::fmod(second + period - 500, period);
    if (second >= 500 && since < 25) demand.outsider[0] = 0.9;
  });
  const Detection detection = find_pipeline("reveal").run(job, {.keep_windows = false});
  std::size_t reported = 0;
  std::size_t recurring = 0;
  for (const Episode& episode : detection.episodes) {
    reported += episode.tier == Tier::none ? 0 : 1;
    recurring += has_label(episode, Label::recurring) ? 1 : 0;
  }
  if (reported == 0) {
    EXPECT_GE(recurring, 4U);
  }
  return reported;
}

TEST(IntervalDetection, LearnsWhatRecursTooRarelyForOneBlock) {
  EXPECT_EQ(reported(3300), 2U);  // happened twice: still news
  EXPECT_EQ(reported(1100), 0U);  // four times, no block holds more than two
}

}  // namespace
}  // namespace reveal::tests::interval_detection_test
