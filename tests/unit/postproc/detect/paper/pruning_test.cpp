#include "postproc/detect/paper/pruning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace reveal::tests::pruning_test {
namespace {

Telemetry correlated() {
  std::mt19937_64 engine(1);
  Telemetry t{.samples = 200};
  t.values.resize(4 * t.samples);
  for (const char* metric : {"irq.LOC", "cpu.user", "mem.dirty", "fixed"}) t.channels.push_back({.metric = metric});
  for (std::size_t s = 0; s < t.samples; ++s) {
    const auto load = static_cast<double>(engine() % 1000);
    t.series(0)[s] = -2 * load;  // follows the load, upside down
    t.series(1)[s] = load;
    t.series(2)[s] = static_cast<double>(engine() % 1000);
    t.series(3)[s] = 1;
  }
  return t;
}

TEST(Pruning, KeepsUtilisationOfWhatMovesTogether) {
  const Telemetry t = correlated();
  const std::vector<std::size_t> expected{1, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

TEST(Pruning, KeepsEverythingThatVariesBelowItsThreshold) {
  const Telemetry t = correlated();
  const std::vector<std::size_t> expected{0, 1, 2};
  EXPECT_EQ(prune(t, 0, t.samples, 1.1), expected);
}

TEST(Pruning, TakesAConstantWithAGapForAConstant) {
  Telemetry t = correlated();
  t.series(3)[17] = std::nan("");
  const std::vector<std::size_t> expected{1, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

Telemetry part_of(const Telemetry& whole, std::size_t begin, std::size_t end) {
  Telemetry part{.samples = end - begin, .channels = whole.channels, .values = {}};
  for (std::size_t c = 0; c < whole.channels.size(); ++c) {
    const auto values = whole.series(c).subspan(begin, end - begin);
    part.values.insert(part.values.end(), values.begin(), values.end());
  }
  return part;
}

/// Channels whose pieces of a hundred samples tell something else than the whole does.
Telemetry of_three_pieces() {
  constexpr double kMissed = std::numeric_limits<double>::quiet_NaN();
  std::mt19937_64 engine(1);
  Telemetry t{.samples = 300};
  for (const char* metric : {"noise", "reversed", "drift", "late", "gaps", "never", "steps", "period", "period.ends"})
    t.channels.push_back({.metric = metric});
  t.values.resize(t.channels.size() * t.samples);
  for (std::size_t s = 0; s < t.samples; ++s) {
    const auto noise = static_cast<double>(engine() % 1000);
    const auto position = static_cast<double>(s);
    const auto phase = static_cast<double>(s % 4);
    const double values[] = {noise,
                             s < 150 ? noise : -noise,
                             1e9 + 10 * position + static_cast<double>(engine() % 1000),
                             s < 100 ? kMissed : noise,
                             s % 7 < 3 ? kMissed : noise + 10 * position,
                             s % 5 == 0 ? kMissed : 3.0,
                             s < 200 ? 1.0 : 2.0,
                             phase,
                             s < 120 ? phase : noise};
    for (std::size_t c = 0; c < t.channels.size(); ++c) t.series(c)[s] = values[c];
  }
  return t;
}

TEST(Pruning, CorrelatesATraceInPiecesAsTheWhole) {
  const Telemetry t = of_three_pieces();
  const ChannelCorrelation whole = correlate(t, 0, t.samples);
  EXPECT_EQ(whole.channels, (std::vector<std::size_t>{0, 1, 2, 3, 4, 6, 8}));
  for (const std::size_t pieces : {1U, 3U, 7U}) {
    const ChannelCorrelation in_pieces = correlate(
        pieces, [&](std::size_t i) { return part_of(t, t.samples * i / pieces, t.samples * (i + 1) / pieces); });
    ASSERT_EQ(in_pieces.channels, whole.channels) << pieces;
    EXPECT_LT((in_pieces.r - whole.r).cwiseAbs().maxCoeff(), 1e-4F) << pieces;
  }
}

TEST(Pruning, LeavesRevealItselfOut) {
  Telemetry t = correlated();
  t.channels[1].subsystem = Subsystem::self;
  const std::vector<std::size_t> expected{0, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

}  // namespace
}  // namespace reveal::tests::pruning_test
