// net.tcp_retrans_intrinsic with the shares that were measured of each kind of loss: needless and in bursts, and of
// random loss, which it must leave to others.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::net_tcp_intrinsic_test {
namespace {

using R = RuleRecording;

struct Sender {
  double again = 2000;      // segments of 208,000
  double recovered = 0.02;  // times recovered, per segment sent again
  double needless = 0;      // segments that had arrived already, per segment sent again
  bool in_bursts = false;
  double reordered = 0;  // times that the sender noticed another order, per segment sent again
};

R record(const Sender& sender) {
  constexpr double kSeconds = 120;
  R node(kSeconds);
  const auto per_second = [=](double share) -> R::Course {
    const double mean = share * sender.again / kSeconds;
    return [=](double second) {
      if (!sender.in_bursts) return mean;
      return std::fmod(second, 10) < 2 ? 5 * mean : 0.0;
    };
  };
  node.counter(
          "tcp.OutSegs", "", [](double second) { return std::fmod(second, 10) < 2 ? 7000.0 : 417.0; }, "node")
      .counter("tcp.RetransSegs", "", per_second(1), "node")
      .counter("tcpext.TCPSackRecovery", "", per_second(sender.recovered), "node")
      .counter("tcpext.TCPDSACKRecv", "", per_second(sender.needless), "node")
      .counter("tcpext.TCPSACKReorder", "", per_second(sender.reordered), "node");
  return node;
}

std::vector<Finding> found_on(const Sender& sender) {
  return record(sender).findings("net.tcp_retrans_intrinsic");
}

TEST(RuleIntrinsic, SaysThatSegmentsHadArrivedAlready) {
  const auto found = found_on({.again = 150, .recovered = 0.02, .needless = 0.9});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_NE(found[0].sentence.find("; 90 % of them had arrived already"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("; 15 or fewer were lost."), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].runner_up.id, "net.tcp_retrans_fault");
}

TEST(RuleIntrinsic, SaysThatNothingWasLostWhereAllHadArrivedAndAllRecoveriesWereUndone) {
  R node = record({.again = 150, .recovered = 0.02, .needless = 1});
  const auto sentence = [&node] { return node.findings("net.tcp_retrans_intrinsic").at(0).sentence; };
  EXPECT_TRUE(sentence().ends_with("100 % of them had arrived already: acknowledgements came late or out of order."))
      << "three recoveries may have been from losses: " << sentence();
  node.counter("tcpext.TCPFullUndo", "", R::always(2.0 / 120), "node")
      .counter("tcpext.TCPDSACKUndo", "", R::always(1.0 / 120), "node");
  EXPECT_TRUE(sentence().ends_with("out of order; nothing was lost.")) << sentence();
}

TEST(RuleIntrinsic, DoesNotSayThatNothingWasLostWhereAPartHadArrived) {
  const auto found = found_on({.again = 150, .recovered = 0.02, .needless = 0.3});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("; at least 30 % of them had arrived already"), std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].sentence.find("nothing was lost"), std::string::npos) << found[0].sentence;
}

TEST(RuleIntrinsic, SaysThatPacketsOvertookEachOther) {
  const auto finding = [](double recovered, double reordered) {
    return found_on({.recovered = recovered, .needless = 0.93, .reordered = reordered}).at(0);
  };
  const Finding overtaken = finding(0.05, 0.5);
  EXPECT_NE(overtaken.sentence.find("had arrived already: packets overtook each other on their way"), std::string::npos)
      << overtaken.sentence;
  EXPECT_EQ(overtaken.impact.how, "not known: after each recovery, the sender sends less for a while");
  ASSERT_EQ(overtaken.remedy.advice.size(), 1U);
  EXPECT_TRUE(overtaken.remedy.advice[0].starts_with("Ask the site whether the network sends "));
  EXPECT_EQ(overtaken.remedy.admin.size(), 3U);
  for (const Finding& late : {finding(0.4, 0.5), finding(0.05, 0)}) {  // two reports for each recovery; no other order
    EXPECT_NE(late.sentence.find("had arrived already: acknowledgements came late or out of order"), std::string::npos)
        << late.sentence;
    EXPECT_TRUE(late.impact.how.starts_with("none seen: ")) << late.impact.how;
    ASSERT_EQ(late.remedy.advice.size(), 1U);
    EXPECT_TRUE(late.remedy.advice[0].starts_with("No repair is needed."));
    EXPECT_TRUE(late.remedy.admin.empty());
  }
}

TEST(RuleIntrinsic, CountsSegmentsAndNotReportsOfThem) {
  R node = record({.again = 15100, .recovered = 0.02, .needless = 0.13, .in_bursts = true});
  node.counter("tcpext.TCPDSACKRecvSegs", "", R::always(0.99 * 15100 / 120), "node");
  const auto found = node.findings("net.tcp_retrans_intrinsic");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("99 % of them had arrived already"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].evidence.at(2).metric, "tcpext.TCPDSACKRecvSegs");
}

TEST(RuleIntrinsic, SaysThatTheyComeWithItsOwnBursts) {
  const auto found = found_on({.recovered = 0.36, .needless = 0.02, .in_bursts = true});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_EQ(found[0].confidence, Confidence::possible) << "random loss follows the traffic, too";
  EXPECT_NE(found[0].sentence.find("rose with its own traffic"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].sentence.find("broken"), std::string::npos) << found[0].sentence;
}

TEST(RuleIntrinsic, NamesThePeerMostWereSentTo) {
  R node = record({.again = 150, .recovered = 0.02, .needless = 0.9});
  for (const auto& [address, again] : {std::pair{"10.0.0.1", 1.2}, std::pair{"10.0.0.3", 0.1}}) {
    node.counter("tcp.peer.retransmits", address, R::always(again))
        .counter("tcp.peer.segments_sent", address, R::always(900));
  }
  const auto found = node.findings("net.tcp_retrans_intrinsic");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].sentence.ends_with(" 92 % of the segments that the job sent again went to 10.0.0.1, one of 2 peer "
                                  "addresses with significant traffic."))
      << found[0].sentence;
  Finding loss;
  loss.id = "net.tcp_retrans_fault";
  loss.intervals = {{node.telemetry.begin_utc_ns, node.telemetry.begin_utc_ns + 5'000'000'000}};
  const auto partly = node.findings("net.tcp_retrans_intrinsic", std::vector<Finding>{loss});
  ASSERT_EQ(partly.size(), 1U);
  EXPECT_EQ(partly[0].sentence.find("10.0.0.1"), std::string::npos) << "some of them belong to the other finding";
}

TEST(RuleIntrinsic, DoesNotExcuseRandomLoss) {
  EXPECT_TRUE(found_on({.recovered = 0.97, .needless = 0}).empty());                         // 205 of 211
  EXPECT_TRUE(found_on({.recovered = 0.66, .needless = 0.065, .in_bursts = true}).empty());  // 597 of 910
  EXPECT_TRUE(found_on({.recovered = 0.36, .needless = 0.02, .in_bursts = false}).empty());  // unknown
}

TEST(RuleIntrinsic, IsSilentOnAFew) {
  EXPECT_TRUE(found_on({.again = 60, .needless = 0.9}).empty());
  EXPECT_TRUE(found_on({.again = 0}).empty());
}

TEST(RuleIntrinsic, LeavesOutWhatARuleHasExplained) {
  const R node = record({.again = 150, .needless = 0.9});
  Finding loss;
  loss.id = "net.congestion";
  loss.intervals = {{node.telemetry.begin_utc_ns, node.telemetry.begin_utc_ns + 100'000'000'000}};
  EXPECT_TRUE(node.findings("net.tcp_retrans_intrinsic", std::vector<Finding>{loss}).empty());
}

TEST(RuleIntrinsic, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("net.tcp_retrans_intrinsic")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::net_tcp_intrinsic_test
