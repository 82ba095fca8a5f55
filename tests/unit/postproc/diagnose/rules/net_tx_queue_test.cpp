#include <gtest/gtest.h>

#include <cmath>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::net_tx_queue_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& dropped, double packets, double sent_during, const Snapshot& facts = {},
                        const std::string& interface = "eth0") {
  R node;
  node.end = facts;
  node.counter("net.qdisc_drops", interface, dropped, "node");
  node.counter("net.tx_packets", interface, R::always(packets), "node");
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
  EXPECT_NE(found[0].impact.how.find(" segments were sent per second instead of "), std::string::npos)
      << found[0].impact.how;
}

TEST(RuleTxQueue, DoesNotTakeOneShortBurstForTheWholeRun) {
  const R::Course burst = [](double seconds) { return seconds >= 50 && seconds < 51.5 ? 80'000.0 : 0.0; };
  for (const Finding& finding : of(burst, 20'000, 20'000)) {
    EXPECT_EQ(finding.sentence.find("throughout the run"), std::string::npos) << finding.sentence;
  }
}

TEST(RuleTxQueue, NeedsNoUsualLevelOfACounterOfDrops) {
  const auto found = of(R::always(600), 20'000, 20'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NE(found[0].sentence.find("packets a second throughout the run, 2."), std::string::npos) << found[0].sentence;
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
  EXPECT_EQ(of(R::habit(0, 6000), 20'000, 20'000).size(), 1U) << "in bursts";
}

TEST(RuleTxQueue, FindsTheDropsOfAQueueThatWasThereForAWhileOnly) {
  // As measured: a shaper on an interface without a queue, 307 and 274 packets in two rows of 10 s, none sent again.
  const auto while_there = [](double second) {
    if (second < 50 || second >= 70) return std::nan("");
    return second < 60 ? 30.7 : 27.4;
  };
  const auto found = of(while_there, 5'500, 5'500);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1);
  EXPECT_EQ(found[0].evidence.at(0).expected, 0);
}

TEST(RuleTxQueue, ReadsHowManySegmentsWereSentAgain) {
  EXPECT_EQ(of(R::event(0, 140), 20'000, 14'000).at(0).runner_up.why_not,
            "these packets never left the node; segments sent again were not measured");
  R node;
  node.counter("net.qdisc_drops", "eth0", R::event(0, 140), "node");
  node.counter("net.tx_packets", "eth0", R::always(20'000), "node");
  node.counter("tcp.RetransSegs", "", R::always(0));
  const auto found = node.findings("net.tx_queue_drop");
  EXPECT_EQ(found.at(0).runner_up.why_not, "these packets never left the node; 0 segments/s were sent again");
  EXPECT_EQ(found.at(0).evidence.back().metric, "tcp.RetransSegs");
}

TEST(RuleTxQueue, PrintsTheOneLineThatFitsTheKindOfTheQueue) {
  const auto line = [](const std::string& kind) {
    const Snapshot facts = kind.empty() ? Snapshot() : Snapshot{{"net.eth0.qdisc", kind}};
    const auto found = of(R::event(0, 140), 20'000, 14'000, facts, "ns2/eth0");
    EXPECT_EQ(found.at(0).remedy.admin.size(), 1U) << kind;
    return found.at(0).remedy.admin.at(0);
  };
  EXPECT_TRUE(line("tbf").starts_with(
      "tc qdisc replace dev eth0 root fq   # changes the node until its next boot: instead of tbf"))
      << line("tbf");
  EXPECT_TRUE(line("fq tbf").starts_with(
      "tc qdisc replace dev eth0 root fq   # changes the node until its next boot: instead of tbf"))
      << "for a while";
  EXPECT_TRUE(line("pfifo_fast").starts_with("ip link set dev eth0 txqueuelen 10000 ")) << line("pfifo_fast");
  EXPECT_TRUE(line("fq").starts_with("tc -d qdisc show dev eth0   # fq: ")) << "fq ignores txqueuelen: " << line("fq");
  EXPECT_TRUE(line("").starts_with("tc -d qdisc show dev eth0   # its kind: ")) << line("");
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
