#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::net_tx_queue_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& dropped, double packets, double sent_during) {
  R node;
  node.counter("net.qdisc_drops", "eth0", dropped, "node");
  node.counter("net.tx_packets", "eth0", R::always(packets), "node");
  node.counter("tcp.OutSegs", "", R::event(packets, sent_during));
  return node.findings("net.tx_queue_drop");
}

TEST(RuleTxQueue, NamesTheInterfaceTheIntervalAndTheLoss) {
  const auto found = of(R::event(0, 140), 20'000, 14'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"eth0"});
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.3 * 15, 0.6);
  EXPECT_NE(found[0].remedy.user.at(0).find("tc -s qdisc show dev eth0"), std::string::npos);
}

TEST(RuleTxQueue, IsSilentOnWhatOnlyLooksSo) {
  EXPECT_TRUE(of(R::always(140), 20'000, 20'000).empty()) << "a queue that always drops a little";
  EXPECT_TRUE(of(R::event(0, 140), 2'000'000, 2'000'000).empty()) << "next to nothing of what was sent";
  EXPECT_TRUE(of(R::event(0, 5), 20'000, 14'000).empty());
}

TEST(RuleTxQueue, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("net.tx_queue_drop")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_tx_queue_test
