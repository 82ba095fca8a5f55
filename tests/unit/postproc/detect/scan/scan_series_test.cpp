#include "postproc/detect/scan/scan_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "postproc/detect/pipeline.h"

namespace reveal::tests::scan_series_test {
namespace {

constexpr std::size_t kMetrics = 10;
constexpr std::size_t kSamples = 1200;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Ten counters of each rank, which all do the same.
Telemetry ranks(std::size_t count) {
  std::mt19937_64 engine(7);
  Telemetry t{.step_seconds = 0.1, .samples = kSamples};
  for (std::size_t c = 0; c < kMetrics * count; ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c / count),
                          .instance = "rank" + std::to_string(c % count),
                          .kind = Kind::counter,
                          .subsystem = Subsystem::process,
                          .period_seconds = 0.1});
    for (std::size_t s = 0; s < kSamples; ++s) t.values.push_back(500 + static_cast<double>(engine() % 1000));
  }
  return t;
}

void leave_out(Telemetry& t, std::size_t channel, std::size_t begin, std::size_t end) {
  std::fill(t.series(channel).begin() + static_cast<std::ptrdiff_t>(begin),
            t.series(channel).begin() + static_cast<std::ptrdiff_t>(end), kNaN);
}

/// Scores of the contrast of a channel; empty if it has none.
std::vector<float> contrast_of(const ScanInput& input, std::size_t channel) {
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (input.series[i].form != SeriesForm::contrast || input.series[i].channel != channel) continue;
    return {input.of(i).begin(), input.of(i).end()};
  }
  return {};
}

ScanInput input_of(const Telemetry& t) {
  return scan_input(t, 0, t.samples, scan_scale(t.step_seconds));
}

TEST(ScanSeries, HaveNoContrastWhereAPeerIsMissing) {
  for (const std::size_t count : {2, 4}) {
    Telemetry t = ranks(count);
    const std::size_t ended = count - 1;
    leave_out(t, ended, 720, kSamples);
    const std::vector<float> scores = contrast_of(input_of(t), count == 2 ? 0 : ended);
    ASSERT_EQ(scores.size(), kSamples) << count;
    EXPECT_TRUE(std::all_of(scores.begin() + 720, scores.end(), [](float score) { return score == 0; })) << count;
    EXPECT_TRUE(std::any_of(scores.begin(), scores.begin() + 720, [](float score) { return score > 2; })) << count;
  }
}

TEST(ScanSeries, HaveNoContrastOfPeersThatHardlyMeet) {
  Telemetry t = ranks(2);
  leave_out(t, 0, 660, kSamples);
  leave_out(t, 1, 0, 600);
  EXPECT_TRUE(contrast_of(input_of(t), 0).empty());
  EXPECT_FALSE(contrast_of(input_of(t), 2).empty());
}

TEST(ScanSeries, OfRanksThatEndOrPauseAreNoEvent) {
  for (const std::size_t count : {2, 4, 8}) {
    for (const std::size_t end : {std::size_t{840}, kSamples}) {
      Telemetry t = ranks(count);
      for (std::size_t c = 0; c < t.channels.size(); ++c) {
        if (c % count >= count / 2) leave_out(t, c, 720, end);
      }
      for (const Episode& episode : find_pipeline("reveal").run(t, {}).episodes) {
        EXPECT_EQ(episode.tier, Tier::none) << count << " ranks, to " << end << ": " << episode.claim;
      }
    }
  }
}

}  // namespace
}  // namespace reveal::tests::scan_series_test
