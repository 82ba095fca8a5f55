// net.pause_congestion on ports that flow control stopped, in both directions, and on the few pauses of a lossless
// network.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::net_pause_test {
namespace {

using R = RuleRecording;

constexpr double kShare = 1e9;  // nanoseconds in a second

R node_with(const R::Course& rx_time, const R::Course& tx_time, const R::Course& bytes = R::always(5e9)) {
  R node;
  node.counter("net.rx_pause", "eth0", R::always(20), "node").counter("net.tx_pause", "eth0", R::always(20), "node");
  node.counter("net.rx_pause_time", "eth0", rx_time, "node").counter("net.tx_pause_time", "eth0", tx_time, "node");
  node.counter("net.tx_bytes", "eth0", R::always(1e5), "node").counter("net.rx_bytes", "eth0", R::always(1e5), "node");
  node.counter("ib.xmit_bytes", "mlx5_0:1", bytes, "node").counter("ib.rcv_bytes", "mlx5_0:1", bytes, "node");
  node.begin = {
      {"rdma.mlx5_0.1.interface", "eth0"}, {"rdma.mlx5_0.1.link_layer", "Ethernet"}, {"rdma.mlx5_0.1.state", "ACTIVE"}};
  return node;
}

TEST(RuleNetPause, NamesTheInterfaceTheIntervalAndTheLoss) {
  const R node = node_with(R::event(0, 0.3 * kShare), R::always(0), R::event(5e9, 3e9));
  const auto found = node.findings("net.pause_congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "eth0 of n2 was paused for 15 s, 29.7 % of the time (usually 0 % of the time): its switch stopped it from "
            "sending, because the network was congested.");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"eth0"});
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 15, 0.6) << "of the RDMA port behind it";
  EXPECT_EQ(found[0].remedy.admin.at(0).substr(0, 15), "ethtool -S eth0");
}

TEST(RuleNetPause, TellsANodeThatIsTooSlow) {
  const auto found = node_with(R::always(0), R::event(0, 0.3 * kShare)).findings("net.pause_congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("this node could not receive as fast"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].severity, Severity::notice) << "as much arrived as before";
}

TEST(RuleNetPause, SeesAPortThatIsPausedAllTheTime) {
  const R node = node_with(R::always(0.2 * kShare), R::always(0));
  const auto found = node.findings("net.pause_congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 120, 0.2);
  EXPECT_EQ(found[0].sentence.find("usually"), std::string::npos) << found[0].sentence;
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
}

TEST(RuleNetPause, TypesNoCommandOnTheNodeForAnInterfaceOfAnotherNamespace) {
  R node;
  node.counter("net.rx_pause", "ns2/eth0", R::event(0, 3000), "node");
  const auto found = node.findings("net.pause_congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"ns2/eth0"});
  EXPECT_EQ(found[0].remedy.admin,
            (std::vector<std::string>{
                "Look in the network namespace of the interface: on n2, lsns -t net lists a process of each namespace, "
                "and nsenter -n -t with its number, before ethtool -S, enters it.",
                "Find the slow receiver: check its PCI Express link, its interrupts, its ring."}));
}

TEST(RuleNetPause, CountsFramesWhereTheCardCountsNoTime) {
  const auto of = [](const R::Course& frames) {
    R node;
    node.counter("net.rx_pause", "eth0", frames, "node");
    return node.findings("net.pause_congestion");
  };
  const auto found = of(R::event(0, 3000));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_TRUE(of(R::event(0, 300)).empty());
}

TEST(RuleNetPause, NeedsNoMoreFramesThanStopASlowPort) {
  const auto of = [](double speed, const R::Course& frames) {
    R node;
    node.counter("net.rx_pause", "eth0", frames, "node").gauge("net.speed", "eth0", R::always(speed), "node");
    return node.findings("net.pause_congestion").size();
  };
  EXPECT_EQ(of(1e9, R::event(0, 60)), 1U) << "30/s stop it all the time";
  EXPECT_EQ(of(1e9, R::event(0, 10)), 0U);
  EXPECT_EQ(of(100e9, R::event(0, 60)), 0U);
  EXPECT_EQ(of(100e9, R::event(0, 3000)), 1U);
}

TEST(RuleNetPause, IsSilentOnAFewPauses) {
  EXPECT_TRUE(node_with(R::always(0), R::always(0)).findings("net.pause_congestion").empty());
  EXPECT_TRUE(
      node_with(R::always(0.002 * kShare), R::event(0, 0.005 * kShare)).findings("net.pause_congestion").empty());
}

TEST(RuleNetPause, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("net.pause_congestion")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_pause_test
