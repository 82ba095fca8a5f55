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

TEST(RuleCongestion, SeesTheLimitOfAJobWhoseBurstsAlwaysComeOutOfOrder) {
  // As many segments a second are out of order in bursts, for some seconds, as at the limit: but few of those sent.
  R node;
  const R::Course received = bursts(125e6, R::always(12e6));
  const auto out_of_order = [](double second) {
    if (inside(second)) return 600.0;
    return std::fmod(second, 2) < 1 ? 500 + 500 * std::sin(second / 4) : 0;
  };
  node.counter("net.rx_bytes", "eth0", received)
      .counter("tcpext.TCPOFOQueue", "", out_of_order)
      .counter("tcp.InSegs", "", [received](double second) { return received(second) / 1500; });
  const auto found = node.findings("net.congestion");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.5);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.5);
}

TEST(RuleCongestion, AsksTheRoundTripsWhereTheRateIsNotEven) {
  // A third of the time at the limit: as of a job that also computes, or that loses segments at random.
  const auto uneven = [](double second) { return 25e6 * (std::fmod(second, 1) < 0.35 ? 1 : std::fmod(second, 1)); };
  const auto with_round_trips = [&](double inside, double usual) {
    R node = record(bursts(125e6, uneven), 800);
    node.gauge("tcp.peer.rtt", "10.0.0.1", R::event(usual, inside))
        .gauge("tcp.peer.rtt", "127.0.0.1", R::always(20'000));
    return node.findings("net.congestion").size();
  };
  EXPECT_EQ(with_round_trips(2e6, 1.4e6), 1U) << "packets waited in the port's queue";
  EXPECT_EQ(with_round_trips(0.7e6, 1.4e6), 0U) << "no queue was full: connections sent less because of the losses";
  EXPECT_TRUE(record(bursts(125e6, uneven), 800).findings("net.congestion").empty()) << "not measured";
}

TEST(RuleCongestion, IsSilentWhenThereIsLessToSend) {
  EXPECT_TRUE(record(bursts(125e6, R::always(25e6)), 0.6).findings("net.congestion").empty());
}

TEST(RuleCongestion, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("net.congestion")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_congestion_test
