#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::net_nic_drop_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& dropped, double packets, Snapshot ring = {},
                        const R::Course& backlog = R::always(0)) {
  R node;
  node.end = std::move(ring);
  node.counter("softnet.dropped", "cpu0", backlog, "node");
  node.counter("net.rx_dropped", "eth0", dropped, "node").counter("net.rx_fifo", "eth0", R::always(0), "node");
  node.counter("net.rx_packets", "eth0", R::always(packets), "node");
  node.counter("tcp.InSegs", "", R::event(packets, packets * 0.8));
  return node.findings("net.nic_rx_drop");
}

TEST(RuleNicDrop, NamesTheInterfaceTheIntervalAndTheLoss) {
  const auto found = of(R::event(0, 300), 20'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"eth0"});
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.2 * 15, 0.6);
  EXPECT_NE(found[0].remedy.user.at(0).find("ip -s link show eth0"), std::string::npos);
}

TEST(RuleNicDrop, AsksForALongerRingOnlyWhereThereIsOne) {
  const auto asked = [](const Snapshot& ring) {
    std::string lines;
    const auto found = of(R::event(0, 300), 20'000, ring);
    for (const std::string& line : found.at(0).remedy.admin) lines += line + '\n';
    return lines;
  };
  EXPECT_NE(asked({}).find("ethtool -G eth0 rx 8192 "), std::string::npos) << asked({});
  const Snapshot short_ring = {{"net.eth0.rx_ring", "256"}, {"net.eth0.rx_ring_most", "4096"}};
  EXPECT_NE(asked(short_ring)
                .find("ethtool -G eth0 rx 4096   # changes the node, only without jobs: a "
                      "longer ring, now 256 packets; "),
            std::string::npos)
      << asked(short_ring);
  EXPECT_EQ(asked(short_ring).find("8192"), std::string::npos) << asked(short_ring);
  const Snapshot longest = {{"net.eth0.rx_ring", "4096"}, {"net.eth0.rx_ring_most", "4096"}};
  EXPECT_EQ(asked(longest).find("ethtool -G"), std::string::npos) << asked(longest);
  const auto found = of(R::event(0, 300), 20'000, short_ring);
  EXPECT_EQ(found.at(0).evidence.back().observed, 256);
  EXPECT_EQ(found.at(0).evidence.back().expected, 4096);
}

TEST(RuleNicDrop, TakesPacketsThatNobodyWantedForWhatTheyAre) {
  EXPECT_TRUE(of(R::always(2), 20'000).empty());      // an unknown protocol, all the time
  EXPECT_TRUE(of(R::event(0, 30), 900'000).empty());  // next to nothing of the traffic
  EXPECT_TRUE(of(R::always(0), 20'000).empty());
}

TEST(RuleNicDrop, NeedsNoUsualLevelOfACounterOfDrops) {
  const auto found = of(R::always(600), 20'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NE(found[0].sentence.find("packets a second throughout the run: 2."), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].sentence.find("usually"), std::string::npos) << found[0].sentence;
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
  EXPECT_EQ(found[0].impact.how, "not known: no part of the run was without it");
  EXPECT_TRUE(of(R::always(60), 20'000).empty()) << "unwanted packets of a large network";
}

TEST(RuleNicDrop, PrintsNoCommandThatActsOnAnInterfaceOfTheNodeOfTheSameName) {
  R node;
  node.end = {{"net.eth0.rx_ring", "256"}, {"net.eth0.rx_ring_most", "4096"}};
  node.counter("net.rx_dropped", "ns2/eth0", R::event(0, 300), "node");
  node.counter("net.rx_packets", "ns2/eth0", R::always(20'000), "node");
  const auto found = node.findings("net.nic_rx_drop");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].sentence,
      "ns2/eth0 of n2 dropped 297 packets a second for 15 s: 1.48 % of the packets that arrived (usually 0 a second).");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"ns2/eth0"});
  EXPECT_TRUE(found[0].sentence.starts_with("ns2/eth0 of ")) << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.user.empty());
  ASSERT_EQ(found[0].remedy.admin.size(), 1U);
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("Look in the network namespace of the interface: "))
      << found[0].remedy.admin.at(0);
  EXPECT_EQ(found[0].evidence.size(), 1U) << "the ring is that of another card";
}

TEST(RuleNicDrop, FindsPacketsThatOnlyTheDriverCounts) {
  const auto with_driver = [](const R::Course& own, const R::Course& no_buffer, const R::Course& overrun) {
    R node;
    node.counter("net.rx_dropped", "eth0", own, "node").counter("net.rx_fifo", "eth0", R::always(0), "node");
    node.counter("net.rx_no_buffer", "eth0", no_buffer, "node").counter("net.rx_overrun", "eth0", overrun, "node");
    node.counter("net.rx_packets", "eth0", R::always(20'000), "node");
    return node.findings("net.nic_rx_drop");
  };
  const auto hidden = with_driver(R::always(0), R::event(0, 20), R::event(0, 300));
  ASSERT_EQ(hidden.size(), 1U);
  EXPECT_EQ(hidden[0].evidence.at(0).metric, "net.rx_overrun") << "most of them";
  EXPECT_NEAR(hidden[0].evidence.at(0).observed.value_or(0), 320, 5);
  const auto shown = with_driver(R::event(0, 300), R::event(0, 300), R::always(0));
  ASSERT_EQ(shown.size(), 1U) << "no packet counts twice";
  EXPECT_EQ(shown[0].evidence.at(0).metric, "net.rx_dropped");
  EXPECT_NEAR(shown[0].evidence.at(0).observed.value_or(0), 300, 5);
  EXPECT_TRUE(with_driver(R::always(0), R::always(0), R::always(2)).empty());
}

TEST(RuleNicDrop, KnowsTheRingOfACardInANamespaceOfItsOwn) {
  R node;
  node.end = {{"net.eth0.rx_ring", "4096"},
              {"net.eth0.rx_ring_most", "4096"},
              {"net.ns2/eth0.rx_ring", "256"},
              {"net.ns2/eth0.rx_ring_most", "1024"}};
  node.counter("net.rx_dropped", "ns2/eth0", R::event(0, 300), "node");
  node.counter("net.rx_packets", "ns2/eth0", R::always(20'000), "node");
  const auto found = node.findings("net.nic_rx_drop");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.back().metric, "net.ns2/eth0.rx_ring");
  EXPECT_EQ(found[0].evidence.back().observed, 256);
}

TEST(RuleNicDrop, NamesTheCardAndNotTheBondAboveIt) {
  R node;
  node.begin = {{"net.eth0.numa_node", "0"}, {"net.eth1.numa_node", "0"}};
  for (const char* name : {"bond0", "eth0", "eth1"}) {
    const bool drops = std::string(name) != "eth1";
    node.counter("net.rx_dropped", name, drops ? R::event(0, 300) : R::always(0), "node");
    node.counter("net.rx_packets", name, R::always(20'000), "node");
  }
  const auto found = node.findings("net.nic_rx_drop");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"eth0"}) << "a bond has no ring";
}

TEST(RuleNicDrop, LeavesWhatACpusBacklogDroppedToOthers) {
  EXPECT_TRUE(of(R::event(0, 300), 20'000, {}, R::event(0, 320)).empty());
  EXPECT_EQ(of(R::event(0, 300), 20'000, {}, R::event(0, 20)).size(), 1U);
}

TEST(RuleNicDrop, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("net.nic_rx_drop")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_nic_drop_test
