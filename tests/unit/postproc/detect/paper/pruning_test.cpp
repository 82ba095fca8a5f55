#include "postproc/detect/paper/pruning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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

TEST(Pruning, LeavesRevealItselfOut) {
  Telemetry t = correlated();
  t.channels[1].subsystem = Subsystem::self;
  const std::vector<std::size_t> expected{0, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

}  // namespace
}  // namespace reveal::tests::pruning_test
