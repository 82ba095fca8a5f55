// irq.softirq_saturation on packets piled up on one cpu that drops some, and on a skew that costs nothing.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal {
namespace {

using R = RuleRecording;

R piled_up(double dropped, double squeezed = 0, double softirq = 0.1) {
  R node;
  node.counter("softnet.processed", "cpu0", R::event(30'000, 60'000))
      .counter("softnet.processed", "cpu1", R::event(30'000, 100))
      .counter("softnet.dropped", "cpu0", R::event(0, dropped))
      .counter("softnet.dropped", "cpu1", R::always(0))
      .counter("softnet.time_squeeze", "cpu0", R::event(0, squeezed))
      .counter("cpu.softirq", "cpu0", R::event(0.05e9, softirq * 1e9))
      .counter("tcp.InSegs", "", R::event(60'000, 45'000));
  return node;
}

TEST(RuleSoftirq, NamesTheCpuThatDropsPackets) {
  const R node = piled_up(40);
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu0"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.6);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.6);
  EXPECT_GT(found[0].evidence.at(0).observed.value_or(0), 0.95);
  EXPECT_EQ(found[0].evidence.at(1).metric, "softnet.dropped");
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.25, 0.3);
}

TEST(RuleSoftirq, NamesTheSteeringThatCausesIt) {
  R node = piled_up(40);
  node.begin = {{"cpu.online", "0-1"}, {"net.eth0.rps_cpus", "1"}, {"net.eth1.rps_cpus", "3"}};
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("eth0 are steered there alone"), std::string::npos);
  EXPECT_NE(found[0].remedy.admin.at(0).find("/eth0/queues/rx-*; do echo 3 >"), std::string::npos);
}

TEST(RuleSoftirq, TakesWorkLeftBehindOrAFullCpuAsACost) {
  ASSERT_EQ(piled_up(0, 500).findings("irq.softirq_saturation").size(), 1U);
  ASSERT_EQ(piled_up(0, 0, 0.95).findings("irq.softirq_saturation").size(), 1U);
}

TEST(RuleSoftirq, IsSilentOnASkewThatCostsNothing) {
  EXPECT_TRUE(piled_up(0).findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, IsSilentOnDropsOfPacketsThatAreSpread) {
  R node;
  node.counter("softnet.processed", "cpu0", R::event(30'000, 60'000))
      .counter("softnet.processed", "cpu1", R::event(30'000, 60'000))
      .counter("softnet.dropped", "cpu0", R::event(0, 40));
  EXPECT_TRUE(node.findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, TakesWhatManyCpusTookTogetherForNobodys) {
  R spread;  // a large host: the cpus without channels of their own are one
  spread.counter("softnet.processed", "other_cpus", R::always(90'000))
      .counter("softnet.processed", "cpu7", R::always(900))
      .counter("softnet.dropped", "other_cpus", R::event(0, 40));
  EXPECT_TRUE(spread.findings("irq.softirq_saturation").empty());
  R node;
  node.counter("softnet.processed", "other_cpus", R::event(60'000, 900))
      .counter("softnet.processed", "cpu7", R::event(900, 60'000))
      .counter("softnet.dropped", "cpu7", R::event(0, 40));
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu7"});
}

TEST(RuleSoftirq, IsSilentOnAFewPackets) {
  R node;
  node.counter("softnet.processed", "cpu0", R::always(50))
      .counter("softnet.processed", "cpu1", R::always(0))
      .counter("softnet.dropped", "cpu0", R::event(0, 5));
  EXPECT_TRUE(node.findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, ExplainsTheLossThatFollowsFromIt) {
  R node = piled_up(40);
  node.counter("tcpext.TCPOFOQueue", "", R::event(0.1, 400));
  EXPECT_TRUE(told_by(node, node.findings("irq.softirq_saturation"), "net.tcp_retrans_fault"));
}

TEST(RuleSoftirq, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("irq.softirq_saturation")), Unavailable);
}

}  // namespace
}  // namespace reveal
