// The retransmissions in the summary of a sender.
#include "postproc/peers/retransmits.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "hdf5schema/basics/clocks.h"
#include "rule_recording.h"

namespace reveal::tests::retransmits_test {
namespace {

using R = RuleRecording;
using Addresses = std::vector<std::string>;

constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;

TimeSpan seconds(std::int64_t begin, std::int64_t end) {
  return {kBegin + begin * kSecond, kBegin + end * kSecond};
}

/// 20 segments a second again from 50 s to 65 s, of which 5 had arrived.
R sender() {
  R node;
  node.telemetry.begin_utc_ns = kBegin;
  node.counter("tcp.peer.retransmits", "10.0.0.2", R::event(0, 20))
      .counter("tcp.peer.duplicates", "10.0.0.2", R::event(0, 5));
  return node;
}

TEST(Retransmits, TellsWhatWasSentToAPeerInATime) {
  const Retransmits all = retransmits_of(sender().telemetry);
  ASSERT_EQ(all.peers.size(), 1U);
  EXPECT_EQ(all.slot_ns, kSecond);
  EXPECT_EQ(all.peers[0].slots.size(), 15U) << "seconds in which there was something";
  const auto told = retransmits_in(all, Addresses{"fd00::2", "10.0.0.2"}, seconds(40, 80));
  ASSERT_TRUE(told.has_value());
  EXPECT_NEAR(told->segments, 300, 10);
  EXPECT_NEAR(told->duplicates, 75, 3);
  const auto before = retransmits_in(all, Addresses{"10.0.0.2"}, seconds(20, 47));
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->segments, 0) << "counted, and there was none";
  const auto late = retransmits_in(all, Addresses{"10.0.0.2"}, seconds(40, 49));
  ASSERT_TRUE(late.has_value());
  EXPECT_NEAR(late->segments, 20, 2) << "a row tells of the one before";
}

TEST(Retransmits, TellsWhichWereSentWhilePacketsOvertookEachOther) {
  R node = sender();
  EXPECT_TRUE(retransmits_of(node.telemetry).peers.at(0).overtaken.empty());
  node.counter("tcp.RetransSegs", "", R::event(0, 20), "node")
      .counter("tcpext.TCPSackRecovery", "", R::event(0, 1), "node")
      .counter("tcpext.TCPSACKReorder", "", R::event(0, 2), "node")
      .counter(
          "tcpext.TCPDSACKRecv", "", [](double second) { return second >= 50 && second < 55 ? 10.0 : 0.0; }, "node");
  const Retransmits all = retransmits_of(node.telemetry);
  ASSERT_EQ(all.peers.at(0).overtaken.size(), all.peers.at(0).slots.size());
  const auto told = retransmits_in(all, Addresses{"10.0.0.2"}, seconds(40, 80));
  ASSERT_TRUE(told.has_value());
  EXPECT_NEAR(told->segments, 300, 10);
  EXPECT_GT(told->overtaken, 100) << "the five seconds";
  EXPECT_LT(told->overtaken, 220) << "and those around which the window of ten seconds has enough of them";
  EXPECT_NEAR(told->overtaken_duplicates / told->overtaken, 0.25, 0.01);
}

TEST(Retransmits, KnowsNothingOfPeersThatWereNotCounted) {
  R node = sender();
  node.counter("tcp.peer.retransmits", "10.0.0.3", R::always(7));
  node.counter("tcp.peer.retransmits", "10.0.0.4", R::always(7))
      .counter("tcp.peer.duplicates", "10.0.0.4", R::always(std::numeric_limits<double>::quiet_NaN()));
  const Retransmits all = retransmits_of(node.telemetry);
  for (const char* peer : {"10.0.0.3", "10.0.0.4", "10.0.0.5"}) {
    EXPECT_FALSE(retransmits_in(all, Addresses{peer}, seconds(0, 120)).has_value()) << peer;
  }
  EXPECT_TRUE(retransmits_of({}).peers.empty());
}

TEST(Retransmits, IsNoAccountOfPeersThatWereCountedInPart) {
  const auto told = [](double percent) {
    R node = sender();
    node.gauge("tcp.peer.coverage", "10.0.0.2", R::event(100, percent));
    node.gauge("tcp.peer.coverage", "10.0.0.3", R::always(2));
    return retransmits_in(retransmits_of(node.telemetry), Addresses{"10.0.0.2"}, seconds(40, 80)).has_value();
  };
  EXPECT_TRUE(told(99));
  EXPECT_FALSE(told(40));
}

TEST(Retransmits, StaysShortWhereMuchIsSentAgain) {
  R node(4000);
  node.telemetry.begin_utc_ns = kBegin;
  node.counter("tcp.peer.retransmits", "10.0.0.2", R::always(10))
      .counter("tcp.peer.duplicates", "10.0.0.2", R::always(9));
  const Retransmits all = retransmits_of(node.telemetry);
  ASSERT_EQ(all.peers.size(), 1U);
  EXPECT_EQ(all.slot_ns, 4 * kSecond);
  EXPECT_EQ(all.peers[0].slots.size(), 1000U);
  const auto told = retransmits_in(all, Addresses{"10.0.0.2"}, seconds(0, 4000));
  ASSERT_TRUE(told.has_value());
  EXPECT_NEAR(told->segments, 40000, 1000);
  EXPECT_NEAR(told->duplicates / told->segments, 0.9, 0.001);
}

TEST(Retransmits, BelievesNoDamagedList) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  const Retransmits damaged{.begin_utc_ns = kLeast,
                            .slot_ns = kLeast,
                            .peers = {{"10.0.0.2", {1, std::numeric_limits<double>::quiet_NaN(), 3}, {1e300, 2}, {}}}};
  const auto told = retransmits_in(damaged, Addresses{"10.0.0.2"}, seconds(0, 100));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->segments, 0);
  const Retransmits cut_off{
      .begin_utc_ns = kBegin,
      .slot_ns = kSecond,
      .peers = {{"10.0.0.2", {50, 51}, {7, 7}, {3, 3}, {std::numeric_limits<double>::quiet_NaN()}, {}}}};
  const auto rest = retransmits_in(cut_off, Addresses{"10.0.0.2"}, seconds(0, 100));
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->segments, 14);
  EXPECT_EQ(rest->overtaken, 0);
  const Retransmits too_many{
      .begin_utc_ns = kBegin, .slot_ns = kSecond, .peers = {{"10.0.0.2", {50}, {7}, {3}, {1e9}, {2e9}}}};
  const auto most = retransmits_in(too_many, Addresses{"10.0.0.2"}, seconds(0, 100));
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(most->overtaken, 7);
  EXPECT_EQ(most->overtaken_duplicates, 3);
}

}  // namespace
}  // namespace reveal::tests::retransmits_test
