// Segments that were sent again because they were lost, or because others overtook them.
#include "postproc/diagnose/sent_again.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "rule_recording.h"

namespace reveal::tests::sent_again_test {
namespace {

using R = RuleRecording;

constexpr LossThresholds kLeast{.min_missing_share = 0.2, .min_missing = 0.0005};

/// A sender that recovers twice a second from 50 s to 65 s, and gets so many reports of duplicates.
R sender(double reports, double probes = 0) {
  R node;
  node.counter("tcpext.TCPSackRecovery", "", R::event(0, 2), "node")
      .counter("tcpext.TCPDSACKRecv", "", R::event(0, reports), "node")
      .counter("tcpext.TCPLossProbes", "", R::event(0, probes), "node");
  return node;
}

std::ptrdiff_t steps_overtaken(const R& node) {
  const std::vector<bool> steps = overtaken_steps(node.telemetry);
  EXPECT_EQ(steps.size(), node.telemetry.samples);
  return std::count(steps.begin(), steps.end(), true);
}

TEST(SentAgain, KnowsThatPacketsOvertookEachOtherByManyReportsForEachRecovery) {
  EXPECT_EQ(steps_overtaken(sender(13)), 249) << "15 s, and windows of 10 s that have a part of them";
  EXPECT_EQ(steps_overtaken(sender(8.1)), 249);
  EXPECT_EQ(steps_overtaken(sender(5)), 0) << "as at losses: what was sent again with the lost segment";
  EXPECT_EQ(steps_overtaken(sender(0)), 0);
  const std::vector<bool> steps = overtaken_steps(sender(13).telemetry);
  EXPECT_FALSE(steps[440]);
  EXPECT_TRUE(steps[500]);
  EXPECT_TRUE(steps[649]);
  EXPECT_FALSE(steps[710]);
}

TEST(SentAgain, TakesNoReportOfAProbeForAnOvertakenPacket) {
  EXPECT_EQ(steps_overtaken(sender(13, 8)), 0);
  EXPECT_EQ(steps_overtaken(sender(13, 20)), 0);
}

TEST(SentAgain, DoesNotKnowWhatWasNotMeasured) {
  R node;
  node.counter("tcpext.TCPSackRecovery", "", R::event(0, 2), "node");
  EXPECT_EQ(steps_overtaken(node), 0);
  node.counter("tcpext.TCPDSACKRecv", "", R::always(std::numeric_limits<double>::quiet_NaN()), "node");
  EXPECT_EQ(steps_overtaken(node), 0);
  R idle;
  idle.counter("tcpext.TCPDSACKRecv", "", R::event(0, 13), "node")
      .counter("tcpext.TCPSackRecovery", "", R::always(0), "node");
  EXPECT_EQ(steps_overtaken(idle), 0) << "it recovered from nothing";
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
}

}  // namespace
}  // namespace reveal::tests::sent_again_test
