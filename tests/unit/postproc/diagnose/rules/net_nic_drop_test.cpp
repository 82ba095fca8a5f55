#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& dropped, double packets, const R::Course& backlog = R::always(0)) {
  R node;
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

TEST(RuleNicDrop, TakesPacketsThatNobodyWantedForWhatTheyAre) {
  EXPECT_TRUE(of(R::always(2), 20'000).empty());      // an unknown protocol, all the time
  EXPECT_TRUE(of(R::event(0, 30), 900'000).empty());  // next to nothing of the traffic
  EXPECT_TRUE(of(R::always(0), 20'000).empty());
}

TEST(RuleNicDrop, LeavesWhatACpusBacklogDroppedToOthers) {
  EXPECT_TRUE(of(R::event(0, 300), 20'000, R::event(0, 320)).empty());
  EXPECT_EQ(of(R::event(0, 300), 20'000, R::event(0, 20)).size(), 1U);
}

TEST(RuleNicDrop, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("net.nic_rx_drop")), Unavailable);
}

}  // namespace
}  // namespace reveal
