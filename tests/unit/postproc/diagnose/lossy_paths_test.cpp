// The peers that are named for lost segments, where some of them were counted in part.
#include "postproc/diagnose/lossy_paths.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "rule_recording.h"

namespace reveal::tests::lossy_paths_test {
namespace {

constexpr double kLost = 200;  // segments per second of the node, from 50 s to 65 s

RuleRecording& add_peer(RuleRecording& node, const std::string& address, double lost, double percent = 100) {
  node.counter("tcp.peer.out_of_order", address, RuleRecording::event(0.1, lost))
      .counter("tcp.peer.segments_received", address, RuleRecording::always(1000));
  if (percent < 100) node.gauge("tcp.peer.coverage", address, RuleRecording::always(percent));
  return node;
}

std::optional<double> share(const RuleRecording& node) {
  const RuleContext::Node recorded{node.telemetry, node.detection, node.begin, node.end, node.events};
  const RuleContext context(*find_rule("net.tcp_retrans_fault"), recorded, {}, {});
  return share_of_job(context, {500, 650}, {}, LossDirection::received, kLost);
}

Finding located(const RuleRecording& node) {
  const RuleContext::Node recorded{node.telemetry, node.detection, node.begin, node.end, node.events};
  const RuleContext context(*find_rule("net.tcp_retrans_fault"), recorded, {}, {});
  Finding finding;
  locate_loss(context, finding, {500, 650}, {}, LossDirection::received, kLost);
  return finding;
}

TEST(LossyPaths, AreNamedWhereThePeersThatWereCountedWellHadMostOfTheLosses) {
  RuleRecording node;
  add_peer(node, "10.0.0.1", kLost);
  add_peer(node, "10.0.0.3", 0.1);
  const std::string known =
      " of the job's losses were on the path from 10.0.0.1 to n2, one of 2 peer addresses with "
      "significant traffic.";
  EXPECT_EQ(located(node).sentence, " All" + known);
  add_peer(node, "10.0.0.9", 0.1, 4);
  const Finding found = located(node);
  EXPECT_EQ(found.sentence, " At least 99 %" + known + " Too few segments of 10.0.0.9 were counted to compare it.");
  ASSERT_EQ(found.evidence.size(), 1U);
  EXPECT_EQ(found.evidence[0].instance, "10.0.0.1");
  add_peer(node, "others", 0.1, 1);
  EXPECT_TRUE(located(node).sentence.ends_with(" were counted to compare them.")) << located(node).sentence;
}

TEST(LossyPaths, AreNotNamedWhereThePeersThatWereHardlyCountedMayHaveLostAsMuch) {
  RuleRecording node;
  add_peer(node, "10.0.0.1", kLost / 2);
  add_peer(node, "10.0.0.3", 0.1);
  add_peer(node, "10.0.0.9", 1, 1);
  EXPECT_EQ(located(node).sentence, "");
  EXPECT_TRUE(located(node).evidence.empty());
}

TEST(LossyPaths, AreAllOfTheCountedOnesWhereTheseAreAlike) {
  RuleRecording node;
  for (const char* address : {"10.0.0.1", "10.0.0.3"}) add_peer(node, address, kLost / 2);
  add_peer(node, "10.0.0.9", 0.1, 4);
  EXPECT_EQ(located(node).sentence,
            " The job's losses came from both counted peer addresses: if these belong to several nodes, the link of n2 "
            "loses packets. Too few segments of 10.0.0.9 were counted to compare it.");
}

TEST(LossyPaths, HadNoMoreOfTheLossesThanThePeersThatWereHardlyCountedMayHaveCarried) {
  RuleRecording node;
  add_peer(node, "10.0.0.1", 0.1);
  EXPECT_LT(share(node).value_or(1), 0.01);
  node.counter("tcp.peer.out_of_order", "10.0.0.9", RuleRecording::always(0))
      .counter("tcp.peer.segments_received", "10.0.0.9", RuleRecording::always(1))
      .gauge("tcp.peer.coverage", "10.0.0.9", RuleRecording::always(4));
  ASSERT_TRUE(share(node).has_value());
  EXPECT_NEAR(*share(node), 0.14, 0.005) << "25 segments a second, for 17 s, of 3,000";
  add_peer(node, "10.0.0.3", 0.1, 4);
  EXPECT_EQ(share(node), 1) << "its segments were more than the node lost";
}

TEST(LossyPaths, HadAnUnknownPartOfTheLossesWhereAPeerCarriedAnUnknownNumberOfSegments) {
  RuleRecording node;
  add_peer(node, "10.0.0.1", 0.1);
  node.counter("tcp.peer.out_of_order", "10.0.0.9", RuleRecording::always(0))
      .counter("tcp.peer.segments_received", "10.0.0.9", RuleRecording::always(0))
      .gauge("tcp.peer.coverage", "10.0.0.9", RuleRecording::always(1));
  EXPECT_FALSE(share(node).has_value());
}

TEST(LossyPaths, HadAnUnknownPartOfTheLossesWhereNoPeerWasCountedWell) {
  RuleRecording node;
  add_peer(node, "10.0.0.9", 0.1, 4);
  EXPECT_FALSE(share(node).has_value());
}

}  // namespace
}  // namespace reveal::tests::lossy_paths_test
