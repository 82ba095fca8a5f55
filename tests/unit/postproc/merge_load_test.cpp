#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "postproc/merge/job.h"
#include "postproc/merge/load.h"

namespace reveal {
namespace {

constexpr std::int64_t kStep = 100'000'000;
constexpr std::int64_t kUtc = 1'700'000'000'000'000'000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Ticks at the given steps of the monotonic clock, each a little late.
FamilyRows family(Kind kind, std::vector<std::int64_t> steps, std::vector<double> values,
                  std::int64_t period_steps = 1) {
  FamilyRows rows;
  rows.spec.path = "cpu/times";
  rows.spec.kind = kind;
  rows.spec.period = std::chrono::nanoseconds(period_steps * kStep);
  rows.channels = {{.metric = "cpu.user", .instance = "cpu0"}};
  for (const std::int64_t step : steps) rows.time_ns.push_back(step * kStep + 3'000'000);
  rows.values = std::move(values);
  return rows;
}

std::vector<double> laid(const FamilyRows& rows, std::int64_t last_step) {
  const Grid grid(3'000'000, last_step * kStep + 3'000'000, kUtc, kStep);
  Telemetry telemetry;
  telemetry.samples = grid.samples();
  telemetry.step_seconds = 0.1;
  lay_on_grid(rows, grid, telemetry);
  const auto series = telemetry.series(0);
  return {series.begin(), series.end()};
}

void expect_same(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    } else {
      EXPECT_DOUBLE_EQ(got[i], expected[i]) << i;
    }
  }
}

TEST(MergeLoad, CountsEachStepAfterTheFirstTick) {
  expect_same(laid(family(Kind::counter, {0, 1, 2, 3}, {kNaN, 5, 6, 7}), 3), {5, 6, 7});
}

TEST(MergeLoad, SpreadsAnIncrementOverTheGapItCovers) {
  expect_same(laid(family(Kind::counter, {0, 1, 4, 5}, {kNaN, 5, 9, 2}), 5), {5, 3, 3, 3, 2});
}

TEST(MergeLoad, LeavesALongGapMissing) {
  const auto series = laid(family(Kind::counter, {0, 1, 61, 62}, {kNaN, 5, 600, 2}), 62);
  EXPECT_DOUBLE_EQ(series[0], 5);
  for (std::size_t t = 1; t <= 60; ++t) EXPECT_TRUE(std::isnan(series[t])) << t;
  EXPECT_DOUBLE_EQ(series[61], 2);
}

TEST(MergeLoad, SpreadsASlowCounterAndHoldsASlowLevel) {
  expect_same(laid(family(Kind::counter, {0, 5, 10}, {kNaN, 10, 20}, 5), 10), {2, 2, 2, 2, 2, 4, 4, 4, 4, 4});
  expect_same(laid(family(Kind::gauge, {0, 5, 10}, {1, 2, 3}, 5), 10), {1, 1, 1, 1, 2, 2, 2, 2, 2, 3});
}

TEST(MergeLoad, DoesNotBelieveALevelThatWasNotReadAgain) {
  expect_same(laid(family(Kind::gauge, {0, 1, 5}, {1, 2, 3}), 5), {2, 2, kNaN, kNaN, 3});
}

TEST(MergeLoad, KeepsMissingValuesMissing) {
  expect_same(laid(family(Kind::counter, {0, 1, 2, 3}, {kNaN, 5, kNaN, 7}), 3), {5, kNaN, 7});
}

TEST(MergeLoad, EndsAChannelWhereItDied) {
  FamilyRows rows = family(Kind::gauge, {0, 1, 2, 3}, {1, 2, 3, 4});
  rows.channels[0].died_ns = 2 * kStep + 3'000'000;
  expect_same(laid(rows, 3), {2, 3, kNaN});
}

TEST(MergeLoad, AlignsSampleZeroToWholeStepsOfWallTime) {
  const Grid grid(3'000'000, 10 * kStep, kUtc + 2'000'000, kStep);
  EXPECT_EQ(grid.begin_utc_ns(), kUtc);
  EXPECT_EQ(grid.index(3'000'000), -1);
  EXPECT_EQ(grid.index(kStep + 4'000'000), 0);
}

TEST(MergeLoad, IsNotRespacedByAWallClockThatSteps) {
  TraceHeader header;
  std::vector<ClockPair> clocks;
  for (std::int64_t i = 0; i < 9; ++i) {
    const std::int64_t stepped = i < 6 ? 0 : -40'000'000'000;
    clocks.push_back({i * 10'000'000'000, i * 10'000'000'000 + kUtc + stepped, 0});
  }
  EXPECT_EQ(utc_offset_ns(clocks, header, 0), kUtc);
  header.begin_utc_ns = kUtc + 7;
  EXPECT_EQ(utc_offset_ns({}, header, 5), kUtc + 2);
}

TEST(MergeJob, ExpandsTheSchedulersNodeLists) {
  EXPECT_EQ(expand_node_list("n[01-03,7],login"), (std::vector<std::string>{"n01", "n02", "n03", "n7", "login"}));
  EXPECT_EQ(expand_node_list("n1"), (std::vector<std::string>{"n1"}));
  EXPECT_TRUE(expand_node_list("").empty());
  EXPECT_TRUE(expand_node_list("n[3-1]").empty());
  EXPECT_EQ(expand_node_list("n[0-99999999]").size(), 65'536U);
}

}  // namespace
}  // namespace reveal
