// ib.link_degraded on ports that fell, run on one lane or are slower than those of other nodes, and on ports that are
// slow, narrow or down by design.
#include <gtest/gtest.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "postproc/peers/job_rule.h"
#include "rule_recording.h"
#include "rules_tried.h"

namespace reveal::tests::ib_link_degraded_test {
namespace {

using R = RuleRecording;

Snapshot with_port(const std::string& state, const std::string& rate, const char* layer = "InfiniBand") {
  return {{"rdma.mlx5_0.1.link_layer", layer},
          {"rdma.mlx5_0.1.rate", rate},
          {"rdma.mlx5_0.1.state", state},
          {"rdma.mlx5_0.2.rate", "10 Gb/sec (4X SDR)"},
          {"rdma.mlx5_0.2.state", "DOWN"}};
}

std::vector<Finding> of(const Snapshot& begin, const Snapshot& end) {
  R node;
  node.begin = begin;
  node.end = end;
  return node.findings("ib.link_degraded");
}

TEST(RuleIbLinkDegraded, NamesARateThatFellAndAPortThatWentDown) {
  const auto fell = of(with_port("ACTIVE", "200 Gb/sec (4X HDR)"), with_port("ACTIVE", "100 Gb/sec (2X HDR)"));
  ASSERT_EQ(fell.size(), 1U);
  EXPECT_EQ(fell[0].severity, Severity::warning);
  EXPECT_EQ(fell[0].confidence, Confidence::certain);
  EXPECT_NE(fell[0].sentence.find("mlx5_0:1 on n2 fell from 200 to 100 Gb/s"), std::string::npos) << fell[0].sentence;
  EXPECT_EQ(fell[0].evidence.at(0).observed, 100);
  EXPECT_EQ(fell[0].remedy.admin.at(0).substr(0, 22), "mlxlink -d mlx5_0 -p 1");
  const auto down = of(with_port("ACTIVE", "200 Gb/sec (4X HDR)"), with_port("DOWN", "10 Gb/sec (4X SDR)"));
  ASSERT_EQ(down.size(), 1U);
  EXPECT_TRUE(down[0].sentence.ends_with("and DOWN at its end; when that changed is not known.")) << down[0].sentence;
  EXPECT_EQ(down[0].runner_up.why_not, "a port without a cable: it would have been down from the start");
}

TEST(RuleIbLinkDegraded, TellsWhenTheLinkFailed) {
  R node;
  node.gauge("ib.link_downed", "mlx5_0:1", [](double second) { return second >= 40 && second < 50 ? 0.01 : 0; });
  node.begin = with_port("ACTIVE", "200 Gb/sec (4X HDR)");
  node.end = with_port("ACTIVE", "100 Gb/sec (2X HDR)");
  const auto found = node.findings("ib.link_degraded");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence, "The link of mlx5_0:1 on n2 fell from 200 to 100 Gb/s while the recording ran.");
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 40, 0.2);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 50, 0.2);
  node.end = with_port("DOWN", "10 Gb/sec (4X SDR)");
  EXPECT_TRUE(node.findings("ib.link_degraded").at(0).sentence.ends_with("and DOWN at its end."));
}

TEST(RuleIbLinkDegraded, NamesALinkOfOneLane) {
  const Snapshot one_lane = with_port("ACTIVE", "25 Gb/sec (1X EDR)");
  const auto found = of(one_lane, one_lane);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NE(found[0].sentence.find("runs on one lane, at 25 Gb/s"), std::string::npos) << found[0].sentence;
}

TEST(RuleIbLinkDegraded, IsSilentOnPortsThatAreSlowNarrowOrDownByDesign) {
  const auto silent = [](const Snapshot& always) { return of(always, always).empty(); };
  EXPECT_TRUE(silent(with_port("ACTIVE", "400 Gb/sec (4X NDR)"))) << "and its second port has no cable";
  EXPECT_TRUE(silent(with_port("ACTIVE", "100 Gb/sec (2X HDR)"))) << "a split cable";
  EXPECT_TRUE(silent(with_port("ACTIVE", "25 Gb/sec (1X EDR)", "Ethernet")));
  EXPECT_TRUE(of(with_port("ACTIVE", "200 Gb/sec (4X HDR)"), {}).empty()) << "a recording that was cut off";
  EXPECT_TRUE(of(with_port("ACTIVE", "100 Gb/sec (2X HDR)"), with_port("ACTIVE", "200 Gb/sec (4X HDR)")).empty());
}

TEST(RuleIbLinkDegraded, SaysThatThereIsNoLink) {
  EXPECT_THROW(static_cast<void>(R().findings("ib.link_degraded")), Unavailable);
}

using Facts = SharedPairs;

/// `of_n1`: further facts of the first of four nodes.
std::vector<Finding> among_nodes(std::vector<FactDifference> facts, const Facts& of_n1 = {}) {
  PeerComparison comparison;
  comparison.facts = std::move(facts);
  std::vector<NodeProfile> profiles(4);
  std::vector<const NodeProfile*> nodes;
  for (std::size_t n = 0; n < profiles.size(); ++n) {
    NodeProfile& profile = profiles[n];
    profile.node = "n" + std::to_string(n + 1);
    profile.facts = n == 0 ? of_n1 : Facts();
    for (const char* device : {"rdma.mlx5_0", "rdma.mlx5_2"}) {
      profile.facts.emplace_back(std::string(device) + ".type", "MT4123");
      profile.facts.emplace_back(std::string(device) + ".1.link_layer", "InfiniBand");
    }
    for (const FactDifference& fact : comparison.facts) {
      const bool differs = std::find(fact.nodes.begin(), fact.nodes.end(), profile.node) != fact.nodes.end();
      profile.facts.emplace_back(fact.key, differs ? fact.value : fact.usual);
    }
    nodes.push_back(&profile);
  }
  std::vector<Finding> found =
      tried(kJobRules, run_job_rules({.comparison = comparison, .nodes = nodes, .job = {1, 2}}));
  std::erase_if(found, [](const Finding& finding) { return finding.id == "node.config_drift"; });
  return found;
}

TEST(RuleIbLinkDegraded, HoldsThePortsOfAJobsNodesAgainstEachOther) {
  const auto found = among_nodes({{"rdma.mlx5_2.1.phys_state", {"n3"}, "Polling", "LinkUp"},
                                  {"rdma.mlx5_2.1.rate", {"n3"}, "10 Gb/sec (4X SDR)", "200 Gb/sec (4X HDR)"},
                                  {"rdma.mlx5_2.1.state", {"n3"}, "DOWN", "ACTIVE"},
                                  {"rdma.mlx5_0.1.rate", {"n1", "n2"}, "100 Gb/sec (2X HDR)", "200 Gb/sec (4X HDR)"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "ib.link_degraded");
  EXPECT_EQ(found[0].nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
  EXPECT_EQ(found[0].evidence.size(), 2U) << "a port that is down is told once";
  ASSERT_FALSE(found[0].remedy.admin.empty());
  EXPECT_TRUE(found[0].remedy.admin[0].starts_with("mlxlink -d mlx5_0 -p 1 ")) << found[0].remedy.admin[0];
  EXPECT_NE(found[0].sentence.find("mlx5_2:1 of n3 is DOWN (ACTIVE on most other nodes)"), std::string::npos)
      << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("mlx5_0:1 of n[1-2] is 100 Gb/sec (2X HDR)"), std::string::npos)
      << found[0].sentence;
  const auto omni_path = among_nodes({{"rdma.hfi1_0.1.rate", {"n1"}, "25 Gb/sec (1X EDR)", "100 Gb/sec (4X EDR)"}});
  ASSERT_EQ(omni_path.size(), 1U);
  for (const std::string& line : omni_path[0].remedy.admin) EXPECT_FALSE(line.starts_with("mlxlink ")) << line;
}

TEST(RuleIbLinkDegraded, HoldsOnlyPortsOfOneKindAgainstEachOther) {
  const std::vector<FactDifference> slower = {
      {"rdma.mlx5_0.1.rate", {"n1"}, "25 Gb/sec (1X EDR)", "200 Gb/sec (4X HDR)"}};
  EXPECT_EQ(among_nodes(slower).size(), 1U);
  EXPECT_TRUE(among_nodes(slower, {{"rdma.mlx5_0.type", "MT4117"}}).empty()) << "the name of another adapter there";
  EXPECT_TRUE(among_nodes(slower, {{"rdma.mlx5_0.1.link_layer", "Ethernet"}}).empty());
  EXPECT_EQ(among_nodes(slower, {{"rdma.mlx5_1.type", "MT4117"}}).size(), 1U) << "that is another one";
}

TEST(RuleIbLinkDegraded, IsSilentOnANodeWhoseFabricIsFaster) {
  EXPECT_TRUE(among_nodes({{"rdma.mlx5_0.1.rate", {"n1"}, "400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)"},
                           {"rdma.mlx5_0.2.state", {"n1"}, "ACTIVE", "DOWN"}})
                  .empty());
  EXPECT_TRUE(among_nodes({}).empty());
}

}  // namespace
}  // namespace reveal::tests::ib_link_degraded_test
