#include "postproc/detect/scan/error_counters.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace reveal::tests::error_counters_test {
namespace {

constexpr std::size_t kApart = 10;  // samples of a second

/// 20 dropped packets every ten seconds, a thousand times.
Telemetry thousand_bursts() {
  Telemetry telemetry;
  telemetry.step_seconds = 1;
  telemetry.samples = 1000 * kApart;
  telemetry.channels.push_back(Channel{.metric = "softnet.dropped", .kind = Kind::counter});
  telemetry.values.assign(telemetry.samples, 0.0);
  for (std::size_t at = 5; at < telemetry.samples; at += kApart) telemetry.values[at] = 20;
  return telemetry;
}

std::vector<CounterBurst> bursts_in(const Telemetry& telemetry) {
  CounterWatch watch(telemetry.channels, telemetry.step_seconds, scan_scale(telemetry.step_seconds));
  watch.add(telemetry);
  return watch.bursts();
}

TEST(ErrorCounters, KeepTheLargestOfManyBursts) {
  Telemetry telemetry = thousand_bursts();
  telemetry.values[5005] = 30;
  const std::vector<CounterBurst> bursts = bursts_in(telemetry);
  EXPECT_GE(bursts.size(), 100U);
  EXPECT_LE(bursts.size(), 200U) << "a job of weeks has hundreds of thousands";
  EXPECT_TRUE(std::all_of(bursts.begin(), bursts.end(), [](const CounterBurst& one) { return one.recurring; }));
  EXPECT_EQ(std::count_if(bursts.begin(), bursts.end(), [](const CounterBurst& one) { return one.count == 30; }), 1);
  EXPECT_TRUE(std::is_sorted(bursts.begin(), bursts.end(),
                             [](const CounterBurst& a, const CounterBurst& b) { return a.begin < b.begin; }));
  ASSERT_FALSE(bursts.empty());
  EXPECT_EQ(bursts.back().begin, 9995U);
  EXPECT_DOUBLE_EQ(bursts.back().observed, 20);
}

TEST(ErrorCounters, TellOneLargeBurstAmongManySmallOnes) {
  Telemetry telemetry = thousand_bursts();
  telemetry.values[5005] = 2000;
  const std::vector<CounterBurst> bursts = bursts_in(telemetry);
  ASSERT_EQ(bursts.size(), 1U);
  EXPECT_FALSE(bursts[0].recurring);
  EXPECT_EQ(bursts[0].begin, 5005U);
  EXPECT_NEAR(bursts[0].expected, 999 * 20.0 / 9999, 1e-9);
}

TEST(ErrorCounters, CountOneErrorThatIsSpreadOverTheStepsOfItsPeriod) {
  for (const std::size_t steps : {1U, 6U, 10U, 100U}) {
    Telemetry telemetry;
    telemetry.samples = 600;
    telemetry.channels.push_back(Channel{.metric = "cgroup.oom_kill", .kind = Kind::event});
    telemetry.values.assign(telemetry.samples, 0.0);
    std::fill_n(telemetry.values.begin() + 300, steps, 1 / static_cast<double>(steps));
    const std::vector<CounterBurst> bursts = bursts_in(telemetry);
    ASSERT_EQ(bursts.size(), 1U) << steps;
    EXPECT_EQ(bursts[0].begin, 300U);
    EXPECT_EQ(bursts[0].end, 300U + steps);
  }
}

}  // namespace
}  // namespace reveal::tests::error_counters_test
