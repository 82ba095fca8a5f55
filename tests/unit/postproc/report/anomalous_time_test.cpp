#include "postproc/report/anomalous_time.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::anomalous_time_test {
namespace {

using By = AnomalousTime::By;

ReportEpisode episode(std::int64_t begin, std::int64_t end, Subsystem subsystem, std::vector<std::string> metrics) {
  ReportEpisode made;
  made.node = "n01";
  made.span = {begin * kSecond, end * kSecond};
  made.tier = Tier::weak;
  made.subsystem = subsystem;
  for (std::string& metric : metrics) made.reasons.push_back({.metric = std::move(metric), .instance = "0"});
  return made;
}

double seconds_of(const std::vector<AnomalousTime>& times, By by, const std::string& name) {
  for (const AnomalousTime& time : times) {
    if (time.by == by && time.name == name) return time.seconds;
  }
  return 0;
}

TEST(AnomalousTime, CountsOverlappingIntervalsOfANodeOnce) {
  const auto times = anomalous_time({episode(10, 20, Subsystem::cpu, {"cpu.frequency", "cpu.frequency"}),
                                     episode(15, 30, Subsystem::cpu, {"cpu.frequency"}),
                                     episode(40, 45, Subsystem::memory, {"mem.dirty"})});
  EXPECT_DOUBLE_EQ(seconds_of(times, By::subsystem, "cpu"), 20);
  EXPECT_DOUBLE_EQ(seconds_of(times, By::subsystem, "memory"), 5);
  EXPECT_DOUBLE_EQ(seconds_of(times, By::metric, "cpu.frequency"), 20);
  EXPECT_DOUBLE_EQ(seconds_of(times, By::metric, "mem.dirty"), 5);
}

TEST(AnomalousTime, LeavesOutWhatIsNoAnomaly) {
  ReportEpisode edge = episode(0, 5, Subsystem::cpu, {"cpu.user"});
  edge.tier = Tier::none;
  EXPECT_TRUE(anomalous_time({edge}).empty());
  EXPECT_TRUE(anomalous_time({episode(5, 5, Subsystem::cpu, {})}).empty());
}

TEST(AnomalousTime, IsTheSumOverTheNodesWithSharesOfAll) {
  std::vector<AnomalousTime> job;
  add_anomalous_time(anomalous_time({episode(10, 40, Subsystem::cpu, {"cpu.frequency"})}), job);
  add_anomalous_time(anomalous_time({episode(10, 30, Subsystem::cpu, {"irq.count"}),
                                     episode(50, 100, Subsystem::network, {"tcp.retransmits", "irq.count"})}),
                     job);
  finish_anomalous_time(job);
  ASSERT_EQ(job.size(), 5U);
  const struct {
    By by;
    const char* name;
    double seconds;
  } expected[] = {{By::subsystem, "cpu", 50},
                  {By::subsystem, "network", 50},
                  {By::metric, "irq.count", 70},
                  {By::metric, "tcp.retransmits", 50},
                  {By::metric, "cpu.frequency", 30}};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(job[i].by, expected[i].by);
    EXPECT_EQ(job[i].name, expected[i].name);
    EXPECT_DOUBLE_EQ(job[i].seconds, expected[i].seconds);
    EXPECT_DOUBLE_EQ(job[i].percent, expected[i].seconds) << "of 100 s";
  }
}

TEST(AnomalousTime, KeepsTheTwentyFourMetricsWithTheMostTime) {
  std::vector<ReportEpisode> episodes;
  for (int i = 0; i < 50; ++i) {
    episodes.push_back(episode(100 * i, 100 * i + 1 + i, Subsystem::cpu, {"metric." + std::to_string(i)}));
  }
  const auto times = anomalous_time(episodes);
  EXPECT_EQ(times.size(), 25U);
  EXPECT_EQ(times.at(1).name, "metric.49");
  EXPECT_EQ(times.back().name, "metric.26");
}

}  // namespace
}  // namespace reveal::tests::anomalous_time_test
