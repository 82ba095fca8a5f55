// net.congestion on a port that levels the rate, and on loss and idleness that do not.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::net_congestion_test {
namespace {

using R = RuleRecording;

bool inside(double second) {
  return second >= 50 && second < 65;
}

/// A job that exchanges in half of its time at full speed, and other things inside the event.
R::Course bursts(double peak, const R::Course& event) {
  return [=](double second) {
    if (inside(second)) return event(second);
    return std::fmod(second, 2) < 1 ? peak : 0.05 * peak;
  };
}

R record(const R::Course& received, double out_of_order) {
  R node;
  node.counter("net.rx_bytes", "eth0", received)
      .counter("tcpext.TCPOFOQueue", "", R::event(0.5, out_of_order))
      .counter("tcp.InSegs", "", [received](double second) { return received(second) / 1500; });
  return node;
}

TEST(RuleCongestion, SeesARateThatIsNeverExceeded) {
  const R node = record(bursts(125e6, R::always(25e6)), 800);
  const auto found = node.findings("net.congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.5);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 25e6, 2e6);
  EXPECT_NEAR(found[0].evidence.at(1).expected.value_or(0), 125e6, 8e6);
  EXPECT_TRUE(explained_by(node, found, "net.tcp_retrans_fault")) << "it is the reason for the loss";
}

TEST(RuleCongestion, LeavesOutWhatRanksOfTheNodeExchange) {
  R node = record(bursts(125e6, R::always(25e6)), 800);
  node.counter("net.rx_bytes", "lo", R::always(2e9));
  const auto found = node.findings("net.congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 25e6, 2e6);
}

TEST(RuleCongestion, SaysThatAllPeersAreAffected) {
  R node = record(bursts(125e6, R::always(25e6)), 800);
  for (const char* peer : {"10.0.0.1", "10.0.0.3"}) {
    node.counter("tcp.peer.out_of_order", peer, R::event(0.2, 400))
        .counter("tcp.peer.segments_received", peer, R::always(8000));
  }
  const auto found = node.findings("net.congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].sentence.ends_with(" The job's losses came from both peer addresses: if these belong to "
                                  "several nodes, the link of n2 loses packets."))
      << found[0].sentence;
}

TEST(RuleCongestion, LeavesRandomLossToItsOwnRule) {
  // Slower on average, but data between two losses arrives at full speed.
  const auto lossy = [](double second) { return std::fmod(second, 3) < 0.7 ? 120e6 : 2e6; };
  const R node = record(bursts(125e6, lossy), 800);
  EXPECT_TRUE(node.findings("net.congestion").empty());
  EXPECT_EQ(node.findings("net.tcp_retrans_fault").size(), 1U);
}

TEST(RuleCongestion, IsSilentWhenThereIsLessToSend) {
  EXPECT_TRUE(record(bursts(125e6, R::always(25e6)), 0.6).findings("net.congestion").empty());
}

TEST(RuleCongestion, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("net.congestion")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_congestion_test
