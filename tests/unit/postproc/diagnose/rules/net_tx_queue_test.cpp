#include <gtest/gtest.h>

#include <cmath>
#include <iterator>

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

TEST(RuleTxQueue, FindsFewDropsOfLargePackets) {
  // As measured: a shaper of 100 Mbit/s dropped 261 packets of TCP in 30 s, of several segments each.
  const auto dropped = [](double second) {
    if (second < 50 || second >= 80) return 0.0;
    return second < 60 ? 9.4 : second < 70 ? 7.6 : 9.1;
  };
  const auto found = of(dropped, 5'500, 5'000);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1);
}

TEST(RuleTxQueue, TakesTheBurstsOfOneShaperForOneEvent) {
  // As measured, second by second, under a shaper of 30 s.
  const auto dropped = [](double second) {
    constexpr double kDrops[] = {111, 82, 158, 157, 174, 139, 13, 14,  11, 88, 59, 113, 132, 11,
                                 185, 60, 248, 133, 48,  17,  7,  159, 67, 76, 16, 90,  19,  101};
    const auto at = static_cast<std::ptrdiff_t>(second) - 50;
    return at < 0 || at >= std::ssize(kDrops) ? 0.0 : kDrops[at];
  };
  const auto found = of(dropped, 3'500, 3'200);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].intervals.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].intervals[0].begin_utc_ns) * 1e-9, 50, 1);
  EXPECT_NEAR(static_cast<double>(found[0].intervals[0].end_utc_ns) * 1e-9, 78, 1);
  EXPECT_EQ(found[0].evidence.at(0).expected, 0);
}

TEST(RuleTxQueue, KnowsTheQueueOfAnInterfaceInANamespaceOfItsOwn) {
  const Snapshot kinds = {{"net.eth0.qdisc", "fq"}, {"net.ns2/eth0.qdisc", "tbf"}};
  const auto found = of(R::event(0, 140), 20'000, 14'000, kinds, "ns2/eth0");
  EXPECT_NE(found.at(0).sentence.find("in front of ns2/eth0"), std::string::npos) << found.at(0).sentence;
  ASSERT_EQ(found.at(0).remedy.admin.size(), 1U) << "the node may have another eth0";
  EXPECT_TRUE(found.at(0).remedy.admin.at(0).starts_with("Look in the network namespace of the interface: "))
      << found.at(0).remedy.admin.at(0);
  EXPECT_TRUE(found.at(0).remedy.user.empty());
}

TEST(RuleTxQueue, FindsAShaperThatHoldsPacketsBackAndDropsNone) {
  // As measured: a shaper of 100 Mbit/s on an interface without a queue, in rows of 10 s.
  const auto held = [](const std::string& kind, double rate, const R::Course& dropped) {
    R node;
    node.end = {{"net.eth0.qdisc", kind}};
    node.counter("net.qdisc_drops", "eth0", dropped, "node");
    node.counter("net.qdisc_overlimits", "eth0", R::event(0, rate), "node");
    node.counter("net.tx_packets", "eth0", R::always(9'500), "node");
    node.counter("tcp.OutSegs", "", R::event(9'500, 9'000));
    return node.findings("net.tx_queue_drop");
  };
  const auto found = held("tbf", 159, R::always(0));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1);
  const std::string& sentence = found[0].sentence;
  EXPECT_TRUE(sentence.starts_with("The shaper (tbf) of ")) << sentence;
  EXPECT_NE(sentence.find(" in front of eth0 held packets back 157 times a second for "), std::string::npos)
      << sentence;
  EXPECT_TRUE(sentence.ends_with(": the node sent more than the rate that is set there.")) << sentence;
  EXPECT_EQ(found[0].evidence.at(0).metric, "net.qdisc_overlimits");
  EXPECT_EQ(found[0].runner_up.why_not, "these packets were sent later; segments sent again were not measured");
  EXPECT_TRUE(held("fq_codel", 159, R::always(0)).empty()) << "no shaper";
  EXPECT_TRUE(held("tbf", 15, R::always(0)).empty()) << "a few bursts";
  const auto worse = held("tbf", 159, R::event(0, 140));
  ASSERT_EQ(worse.size(), 1U) << "one cause, one finding";
  EXPECT_EQ(worse[0].evidence.at(0).metric, "net.qdisc_drops");
}

TEST(RuleTxQueue, BeginsWhenTheShaperHoldsThePacketsBackOfWhichItDropsSomeLater) {
  // As measured: most drops of a shaper came in the fifth and sixth of ten seconds.
  const auto begins = [](double held) {
    R node;
    node.end = {{"net.eth0.qdisc", "tbf"}};
    node.counter(
            "net.qdisc_drops", "eth0",
            [](double second) {
              if (second >= 54 && second < 57) return 134.0;
              return second >= 50 && second < 65 ? 3.0 : 0.0;
            },
            "node")
        .counter("net.qdisc_overlimits", "eth0", R::event(0, held), "node")
        .counter("net.tx_packets", "eth0", R::always(9'500), "node");
    const auto found = node.findings("net.tx_queue_drop");
    EXPECT_EQ(found.size(), 1U);
    if (found.empty()) return 0.0;
    EXPECT_EQ(found[0].evidence.at(0).metric, "net.qdisc_drops");
    const TimeSpan& span = found[0].intervals.at(0);
    EXPECT_NEAR(node.second_of(span.end_utc_ns), held > 0 ? 65 : 57, 0.5);
    return node.second_of(span.begin_utc_ns);
  };
  EXPECT_NEAR(begins(500), 50, 0.5);
  EXPECT_NEAR(begins(0), 54, 0.5);
}

TEST(RuleTxQueue, StillTellsDropsOfAMomentInALongTimeOfHeldPackets) {
  const auto in = [](double begin, double end, double level) -> R::Course {
    return [=](double second) { return second >= begin && second < end ? level : 0.0; };
  };
  R node(300);
  node.end = {{"net.eth0.qdisc", "tbf"}};
  node.counter("net.qdisc_drops", "eth0", in(100, 103, 134), "node")  // 1.4 % of 3 s, and .04 % of 100 s
      .counter("net.qdisc_overlimits", "eth0", in(50, 150, 30), "node")
      .counter("net.tx_packets", "eth0", R::always(9'500), "node");
  const auto found = node.findings("net.tx_queue_drop");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "net.qdisc_drops");
  EXPECT_EQ(found[0].runner_up.why_not, "these packets never left the node; segments sent again were not measured");
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 100, 0.5);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 103, 0.5);
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
    const auto found = of(R::event(0, 140), 20'000, 14'000, facts, "eth0");
    EXPECT_EQ(found.at(0).remedy.admin.size(), kind.ends_with("tbf") ? 3U : 1U) << kind;
    return found.at(0).remedy.admin.back();
  };
  EXPECT_TRUE(line("tbf").starts_with("tc qdisc del dev eth0 root   # changes ")) << line("tbf");
  EXPECT_TRUE(line("tbf").ends_with("removes tbf, and the default queues come back")) << line("tbf");
  EXPECT_TRUE(line("fq tbf").ends_with("removes tbf, and the default queues come back")) << "for a while";
  EXPECT_TRUE(line("pfifo_fast").starts_with("ip link set dev eth0 txqueuelen 10000 ")) << line("pfifo_fast");
  EXPECT_TRUE(line("fq").starts_with("tc -d qdisc show dev eth0   # fq: ")) << "fq ignores txqueuelen: " << line("fq");
  EXPECT_TRUE(line("").starts_with("tc -d qdisc show dev eth0   # its kind: ")) << line("");
}

TEST(RuleTxQueue, ShowsAShaperAndWhereItMayBeSetBeforeItIsRemoved) {
  const auto found = of(R::event(0, 140), 20'000, 14'000, {{"net.eth0.qdisc", "netem"}}, "eth0");
  EXPECT_TRUE(found.at(0).sentence.ends_with(": it emulates a slow or lossy network, as it was set up on the node."))
      << found.at(0).sentence;
  const std::vector<std::string>& admin = found.at(0).remedy.admin;
  ASSERT_EQ(admin.size(), 3U);
  EXPECT_TRUE(admin[0].starts_with("tc -d qdisc show dev eth0   # ")) << admin[0];
  EXPECT_TRUE(admin[1].starts_with("grep -rsE 'qdisc|")) << admin[1];
  EXPECT_TRUE(admin[2].starts_with("tc qdisc del dev eth0 root   # changes ")) << admin[2];
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
