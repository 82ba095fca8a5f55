#include "postproc/ledger/node_ranking.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "postproc/diagnose/rule.h"

namespace reveal::tests::node_ranking_test {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

LedgerFinding found(const char* rule, std::optional<double> seconds = std::nullopt, std::size_t nodes = 1) {
  return {.rule = rule,
          .severity = Severity::warning,
          .seconds = seconds,
          .how = seconds ? LossKnown::estimated : LossKnown::no,
          .nodes = nodes};
}

/// A job of an hour on four nodes.
LedgerLine line_of(const char* node, const std::string& job, const char* owner, std::vector<LedgerFinding> findings) {
  return {.node = node,
          .job = job,
          .array = {},
          .owner = owner,
          .begin_utc_ns = 1'763'634'725 * kSecond,
          .end_utc_ns = (1'763'634'725 + 3600) * kSecond,
          .job_nodes = 4,
          .findings = std::move(findings)};
}

TEST(NodeRanking, RecognisesHardwareByTheRemedyThatDrains) {
  for (const char* rule : {"mem.ecc_host", "gpu.xid", "gpu.ecc_remap", "ib.link_degraded", "cpu.thermal_throttle"}) {
    ASSERT_NE(find_rule(rule), nullptr) << rule;
    EXPECT_TRUE(is_hardware_rule(*find_rule(rule))) << rule;
  }
  for (const char* rule : {"cpu.outsider", "job.over_requested", "mem.oom_killed", "node.straggler"}) {
    ASSERT_NE(find_rule(rule), nullptr) << rule;
    EXPECT_FALSE(is_hardware_rule(*find_rule(rule))) << rule;
  }
}

TEST(NodeRanking, CountsDifferentJobsAndTheNodeHoursThatAllNodesLost) {
  const std::vector<LedgerLine> lines = {line_of("n1", "1", "a", {found("cpu.outsider", 360)}),
                                         line_of("n1", "2", "b", {found("cpu.outsider", 720, 2)}),
                                         line_of("n1", "3", "b", {}), line_of("n2", "3", "b", {})};
  const NodeRanking ranking = rank_nodes(lines, {});
  EXPECT_EQ(ranking.jobs, 3U);
  EXPECT_EQ(ranking.nodes_seen, 2U);
  ASSERT_EQ(ranking.nodes.size(), 1U);
  const NodeRecord& node = ranking.nodes[0];
  EXPECT_EQ(node.jobs, 3U);
  EXPECT_EQ(node.jobs_with_findings, 2U);
  EXPECT_DOUBLE_EQ(node.cost.hours.value(), 0.8);  // 360 s x 4 nodes, and 720 s x 4 nodes / 2
  ASSERT_EQ(node.rules.size(), 1U);
  EXPECT_EQ(node.rules[0].jobs, 2U);
  EXPECT_EQ(node.rules[0].users, 2U);
  EXPECT_TRUE(node.suggestion.empty());
}

TEST(NodeRanking, LeavesUnknownCostUnknown) {
  const NodeRanking ranking = rank_nodes(std::vector{line_of("n1", "1", "a", {found("cpu.outsider")})}, {});
  EXPECT_EQ(ranking.nodes.at(0).cost.hours, std::nullopt);
  EXPECT_NE(ranking_as_text(ranking, 20, {}).find("cost not known"), std::string::npos);
}

TEST(NodeRanking, BoundsWhatOneJobLostByWhatItHad) {
  const std::vector<LedgerLine> lines = {
      line_of("n1", "1", "a", {found("cpu.outsider", 3000), found("node.straggler", 3000)})};
  EXPECT_DOUBLE_EQ(rank_nodes(lines, {}).nodes.at(0).cost.hours.value(), 4);
}

TEST(NodeRanking, LeavesOutFindingsThatNameAllNodesOfAJob) {
  std::vector<LedgerLine> lines = {line_of("n1", "1", "a", {found("cpu.outsider", 360, 4)})};
  NodeRanking ranking = rank_nodes(lines, {});
  EXPECT_TRUE(ranking.nodes.empty());
  EXPECT_EQ(ranking.whole_jobs, 1U);
  lines[0].findings = {found("mem.ecc_host", 360, 4)};  // a fault of hardware is the node's own
  EXPECT_EQ(rank_nodes(lines, {}).nodes.size(), 1U);
  lines[0].findings = {found("cpu.outsider", 360, 1)};
  lines[0].job_nodes = 1;
  EXPECT_EQ(rank_nodes(lines, {}).nodes.size(), 1U);
  lines[0].findings = {found("job.over_requested", 360, 1)};
  EXPECT_TRUE(rank_nodes(lines, {}).nodes.empty());
}

TEST(NodeRanking, BlamesNoNodeForTheProgramsOfItsUsers) {
  for (const char* rule :
       {"mem.leak_oom_risk", "mem.oom_killed", "cpu.affinity_too_narrow", "cpu.oversubscribed", "io.fs_full"}) {
    std::vector<LedgerLine> lines = {line_of("node0", "1", "a", {found(rule, 360)})};
    lines[0].job_nodes = 1;
    EXPECT_TRUE(rank_nodes(lines, {}).nodes.empty()) << rule;
  }
  for (const char* rule : {"mem.leak_oom_risk", "mem.oom_killed", "cpu.affinity_too_narrow", "cpu.oversubscribed"}) {
    const std::vector<LedgerLine> lines = {line_of("node0", "1", "a", {found(rule, 360)})};  // one of four nodes
    EXPECT_TRUE(rank_nodes(lines, {}).nodes.empty()) << rule;
  }
  EXPECT_EQ(rank_nodes(std::vector{line_of("node0", "1", "a", {found("io.fs_full", 360)})}, {}).nodes.size(), 1U);
}

TEST(NodeRanking, CountsAnArrayJobOnce) {
  std::vector<LedgerLine> lines = {line_of("n1", "11", "a", {found("mem.ecc_host")}),
                                   line_of("n1", "12", "a", {found("mem.ecc_host")}),
                                   line_of("n1", "13", "a", {found("mem.ecc_host")})};
  for (LedgerLine& line : lines) line.array = "10";
  const NodeRanking ranking = rank_nodes(lines, {.agree = 2, .own = "a"});
  EXPECT_EQ(ranking.jobs, 1U);
  EXPECT_EQ(ranking.nodes.at(0).rules.at(0).jobs, 1U);
  EXPECT_EQ(ranking.nodes.at(0).suggestion, "");
}

TEST(NodeRanking, SuggestsADrainWhereJobsOfDifferentUsersAgree) {
  std::vector<LedgerLine> lines = {line_of("n17", "1", "a", {found("mem.ecc_host")}),
                                   line_of("n17", "2", "a", {found("mem.ecc_host")}),
                                   line_of("n18", "2", "a", {found("cpu.outsider")})};
  EXPECT_EQ(rank_nodes(lines, {}).nodes.at(0).suggestion, "");
  lines.push_back(line_of("n17", "3", "b", {found("mem.ecc_host")}));
  const NodeRanking ranking = rank_nodes(lines, {});
  ASSERT_EQ(ranking.nodes.size(), 2U);
  EXPECT_EQ(ranking.nodes[0].node, "n17");
  EXPECT_EQ(ranking.nodes[0].suggestion,
            "scontrol update nodename=n17 state=drain reason=\"reveal: mem.ecc_host in 3 jobs of 2 users\"");
  EXPECT_EQ(rank_nodes(lines, {.agree = 4}).nodes.at(0).suggestion, "");
}

TEST(NodeRanking, LetsOneUserDrainNoNode) {
  std::vector<LedgerLine> lines;
  for (int job = 0; job < 9; ++job) lines.push_back(line_of("n17", std::to_string(job), "a", {found("mem.ecc_host")}));
  const NodeRanking ranking = rank_nodes(lines, {.agree = 3, .own = "root"});
  EXPECT_EQ(ranking.nodes.at(0).suggestion, "");
  EXPECT_EQ(ranking.nodes.at(0).why_no_suggestion,
            "mem.ecc_host: all 9 jobs belong to one user; check the node before you drain it");
  EXPECT_NE(rank_nodes(lines, {.agree = 3, .own = "a"}).nodes.at(0).suggestion, "") << "an archive of the reader's";
}

TEST(NodeRanking, SuggestsNothingForNotices) {
  std::vector<LedgerLine> lines;
  for (const char* owner : {"a", "b", "c"}) {
    lines.push_back(line_of("n17", "1", owner, {found("mem.ecc_host")}));
    lines.back().findings[0].severity = Severity::notice;
  }
  EXPECT_EQ(rank_nodes(lines, {}).nodes.at(0).suggestion, "");
}

TEST(NodeRanking, PrintsOnePage) {
  std::vector<LedgerLine> lines;
  for (const char* owner : {"a", "b", "c"}) lines.push_back(line_of("n17", "1", owner, {found("mem.ecc_host", 36)}));
  lines.push_back(line_of("n18", "2", "c", {found("cpu.outsider", 36)}));
  lines.push_back(line_of("n19", "2", "c", {found("cpu.outsider", 36)}));
  NodeRanking ranking = rank_nodes(lines, {});
  ranking.unread = {{"reveal-9", "reveal-9: \x1b[31mbroken"}};
  EXPECT_EQ(ranking_as_text(ranking, 20, {}),
            "4 jobs on 3 nodes, 2025-11-20 10:32:05 UTC to 2025-11-20 11:32:05 UTC\n"
            "\n"
            "n17  3 of 3 jobs, 0.12 node-hours lost, last 2025-11-20 11:32:05 UTC\n"
            "  3 jobs   mem.ecc_host of 3 users: " +
                std::string(find_rule("mem.ecc_host")->title) +
                "; 0.12\n"
                "           node-hours lost\n"
                "  scontrol update nodename=n17 state=drain reason=\"reveal: mem.ecc_host in 3 jobs of 3 users\"\n"
                "\n"
                "in one job: n[18-19]\n"
                "not read: reveal-9: broken\n");
}

TEST(NodeRanking, TellsHowSureTheCauseIs) {
  std::vector<LedgerLine> lines{line_of("n1", "1", "a", {found("cpu.outsider", 360)})};
  lines[0].findings[0].confidence = Confidence::likely;
  const NodeRanking ranking = rank_nodes(lines, {});
  EXPECT_NE(ranking_as_text(ranking, 20, {}).find("; cause likely\n"), std::string::npos)
      << ranking_as_text(ranking, 20, {});
  const auto json = nlohmann::json::parse(ranking_as_json(ranking));
  EXPECT_EQ(json["nodes"][0]["rules"][0]["confidence"], "likely");
  EXPECT_EQ(json["nodes"][0]["rules"][0]["certainty"], "cause likely");
}

TEST(NodeRanking, WritesJson) {
  const NodeRanking ranking = rank_nodes(std::vector{line_of("n1", "1", "a", {found("cpu.outsider", 360)})}, {});
  const auto json = nlohmann::json::parse(ranking_as_json(ranking));
  EXPECT_EQ(json["schema"], "reveal.nodes/1");
  EXPECT_EQ(json["nodes"][0]["node"], "n1");
  EXPECT_EQ(json["nodes"][0]["rules"][0]["rule"], "cpu.outsider");
  EXPECT_EQ(json["nodes"][0]["node_hours"], 0.4);
  EXPECT_EQ(json["nodes"][0]["suggestion"], nullptr);
}

}  // namespace
}  // namespace reveal::tests::node_ranking_test
