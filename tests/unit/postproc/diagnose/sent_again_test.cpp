// Segments that were sent again because they were lost, or because others overtook them.
#include "postproc/diagnose/sent_again.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "rule_recording.h"

namespace reveal::tests::sent_again_test {
namespace {

using R = RuleRecording;

constexpr LossThresholds kLeast{.min_missing_share = 0.2, .min_missing = 0.0005};

/// Per second, from 50 s to 65 s.
struct Rates {
  double reports = 13;  // about duplicates
  double recoveries = 2;
  double probes = 0;
  double timeouts = 0;
  double reordered = 4;  // times that the sender noticed another order
  double again = 40;     // segments sent again
  double arrived = 30;   // segments in the reports
  double dubious = 0;    // reports that the kernel did not believe
};

R sender(const Rates& rates) {
  R node;
  node.counter("tcpext.TCPSackRecovery", "", R::event(0, rates.recoveries), "node")
      .counter("tcpext.TCPDSACKRecv", "", R::event(0, rates.reports), "node")
      .counter("tcpext.TCPLossProbes", "", R::event(0, rates.probes), "node")
      .counter("tcpext.TCPTimeouts", "", R::event(0, rates.timeouts), "node")
      .counter("tcpext.TCPSACKReorder", "", R::event(0, rates.reordered), "node")
      .counter("tcp.RetransSegs", "", R::event(0, rates.again), "node")
      .counter("tcpext.TCPDSACKRecvSegs", "", R::event(0, rates.arrived), "node")
      .counter("tcpext.TCPDSACKIgnoredDubious", "", R::event(0, rates.dubious), "node");
  return node;
}

std::ptrdiff_t steps_overtaken(const R& node) {
  const std::vector<bool> steps = overtaken_steps(node.telemetry);
  EXPECT_EQ(steps.size(), node.telemetry.samples);
  return std::count(steps.begin(), steps.end(), true);
}

TEST(SentAgain, KnowsThatPacketsOvertookEachOtherByManyReportsForEachRecovery) {
  EXPECT_GT(steps_overtaken(sender({})), 150) << "15 s, and windows of 10 s that have a part of them";
  EXPECT_LT(steps_overtaken(sender({})), 250);
  EXPECT_EQ(steps_overtaken(sender({.reports = 8.1})), steps_overtaken(sender({})));
  EXPECT_EQ(steps_overtaken(sender({.reports = 5})), 0) << "as at losses: what was sent again with the lost segment";
  EXPECT_EQ(steps_overtaken(sender({.reports = 0})), 0);
  const std::vector<bool> steps = overtaken_steps(sender({}).telemetry);
  EXPECT_FALSE(steps[440]);
  EXPECT_TRUE(steps[500]);
  EXPECT_TRUE(steps[649]);
  EXPECT_FALSE(steps[710]);
}

TEST(SentAgain, KnowsNothingByAFewRecoveries) {
  EXPECT_EQ(steps_overtaken(sender({.recoveries = 0.4})), 0) << "four in ten seconds";
}

TEST(SentAgain, TakesNoLateAcknowledgementsForOvertakenPackets) {
  EXPECT_EQ(steps_overtaken(sender({.reordered = 0})), 0);
  EXPECT_EQ(steps_overtaken(sender({.reordered = 1})), 0) << "in every other recovery";
  EXPECT_EQ(steps_overtaken(sender({.timeouts = 8})), 0);
}

TEST(SentAgain, TakesNoDuplicatesOfTheNetworkForOvertakenPackets) {
  EXPECT_EQ(steps_overtaken(sender({.arrived = 40})), 0) << "as many as were sent again";
  EXPECT_EQ(steps_overtaken(sender({.arrived = 3, .dubious = 40})), 0) << "by the reports that the kernel ignored";
  EXPECT_GT(steps_overtaken(sender({.arrived = 30, .dubious = 2})), 150);
}

TEST(SentAgain, TakesNoReportOfAProbeForAnOvertakenPacket) {
  EXPECT_EQ(steps_overtaken(sender({.probes = 8})), 0);
  EXPECT_EQ(steps_overtaken(sender({.probes = 20})), 0);
}

TEST(SentAgain, DoesNotKnowWhatWasNotMeasured) {
  const auto steps_without = [](std::string_view metric) {
    R node = sender({});
    for (std::size_t i = 0; i < node.telemetry.channels.size(); ++i) {
      if (node.telemetry.channels[i].metric != metric) continue;
      const auto series = node.telemetry.series(i);
      std::fill(series.begin(), series.end(), std::numeric_limits<double>::quiet_NaN());
    }
    return steps_overtaken(node);
  };
  for (const char* needed :
       {"tcp.RetransSegs", "tcpext.TCPSackRecovery", "tcpext.TCPSACKReorder", "tcpext.TCPDSACKRecv"}) {
    EXPECT_EQ(steps_without(needed), 0) << needed;
  }
  for (const char* more :
       {"tcpext.TCPDSACKRecvSegs", "tcpext.TCPDSACKIgnoredDubious", "tcpext.TCPLossProbes", "tcpext.TCPTimeouts"}) {
    EXPECT_GT(steps_without(more), 150) << more;
  }
  EXPECT_EQ(steps_overtaken(sender({.recoveries = 0})), 0) << "it recovered from nothing";
  EXPECT_TRUE(overtaken_steps({}).empty());
}

/// In 10 s, of a million segments.
bool lost_of_a_million(const RetransmitCount& again) {
  return were_lost(again, 1e6, kLeast);
}

TEST(SentAgain, IsNoLossWherePacketsOvertookEachOther) {
  const RetransmitCount again{.segments = 11'009, .duplicates = 10'246};  // as measured, without a loss
  EXPECT_TRUE(lost_of_a_million(again)) << "763 of a million are a loss where it is not known that they overtook";
  EXPECT_FALSE(lost_of_a_million(
      {.segments = 11'009, .duplicates = 10'246, .overtaken = 11'009, .overtaken_duplicates = 10'246}));
  EXPECT_FALSE(lost_of_a_million(
      {.segments = 19'608, .duplicates = 17'826, .overtaken = 19'608, .overtaken_duplicates = 17'826}));
}

TEST(SentAgain, IsALossWhereMoreIsMissingThanReportsLeaveOut) {
  const auto overtaken_and_lost = [](double lost) {
    const double segments = 11'009 + lost;
    return lost_of_a_million(
        {.segments = segments, .duplicates = 10'246, .overtaken = segments, .overtaken_duplicates = 10'246});
  };
  EXPECT_TRUE(overtaken_and_lost(10'000)) << "one of a hundred";
  EXPECT_TRUE(overtaken_and_lost(2'000)) << "two of a thousand";
  EXPECT_FALSE(overtaken_and_lost(500)) << "as few may be reports that are missing";
}

TEST(SentAgain, ForgivesNoMoreThanReportsOfTheNeedlessOnesLeaveOut) {
  const RetransmitCount again{
      .segments = 20'000, .duplicates = 8'500, .overtaken = 20'000, .overtaken_duplicates = 8'500};
  EXPECT_NEAR(again.lost(), 10'000, 1e-6) << "of 10,000 needless ones .15 were not reported";
  const RetransmitCount unreported{.segments = 100, .overtaken = 100};
  EXPECT_DOUBLE_EQ(unreported.lost(), 100) << "a receiver that reports nothing";
}

TEST(SentAgain, IsALossBesideATimeInWhichPacketsOvertookEachOther) {
  const RetransmitCount both{
      .segments = 11'009 + 2'649, .duplicates = 10'246 + 1'233, .overtaken = 11'009, .overtaken_duplicates = 10'246};
  EXPECT_DOUBLE_EQ(both.missing(), 2'179);
  EXPECT_DOUBLE_EQ(both.lost(), 1'416);
  EXPECT_TRUE(were_lost(both, 2.3e6, kLeast)) << "the one of a thousand in the other ten seconds";
}

TEST(SentAgain, IsNoLossOfAHandful) {
  EXPECT_FALSE(were_lost({.segments = 4, .duplicates = 0}, 100, kLeast));
  EXPECT_TRUE(were_lost({.segments = 5, .duplicates = 0}, 0, kLeast)) << "the traffic is not known";
  EXPECT_FALSE(were_lost({.segments = 100, .duplicates = 90}, 0, kLeast));
  EXPECT_FALSE(
      were_lost({.segments = 100, .duplicates = 89, .overtaken = 90, .overtaken_duplicates = 80}, 1000, kLeast))
      << "one that the reports cannot leave out";
}

}  // namespace
}  // namespace reveal::tests::sent_again_test
