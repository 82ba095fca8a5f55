#include "postproc/analysis/contradicted_findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::contradicted_findings_test {
namespace {

Finding found(const std::string& id, std::vector<std::string> nodes) {
  return Finding{.id = id, .nodes = std::move(nodes)};
}

NodeSummary node_of(const std::string& name, const std::string& boot_id) {
  NodeSummary summary;
  summary.node = name;
  summary.boot_id = boot_id;
  summary.part.findings = {found("cpu.outsider", {name}), found("mem.oom_killed", {name})};
  return summary;
}

std::vector<std::string> ids_of(const std::vector<Finding>& findings) {
  std::vector<std::string> ids;
  ids.reserve(findings.size());
  for (const Finding& finding : findings) ids.push_back(finding.id);
  return ids;
}

bool is_unchecked(const NodeSummary& summary, const std::string& rule) {
  const auto& rules = summary.part.not_checked;
  return std::any_of(rules.begin(), rules.end(), [&](const NotChecked& one) { return one.rule == rule; });
}

TEST(ContradictedFindings, OfAWholeMachineAreVoidWhereNodesShareAKernel) {
  std::vector<NodeSummary> nodes = {node_of("n1", "a"), node_of("n2", "a"), node_of("n3", "b"), node_of("n4", ""),
                                    node_of("n5", "")};
  void_where_kernel_is_shared(nodes);
  const std::vector<std::string> both = {"cpu.outsider", "mem.oom_killed"};
  EXPECT_EQ(ids_of(nodes[0].part.findings), std::vector<std::string>{"mem.oom_killed"});
  EXPECT_EQ(ids_of(nodes[1].part.findings), std::vector<std::string>{"mem.oom_killed"});
  EXPECT_EQ(ids_of(nodes[2].part.findings), both);
  EXPECT_EQ(ids_of(nodes[3].part.findings), both) << "whether two unknown kernels are the same is not known";
  EXPECT_TRUE(is_unchecked(nodes[0], "cpu.outsider"));
  EXPECT_FALSE(is_unchecked(nodes[0], "mem.oom_killed"));
  EXPECT_FALSE(is_unchecked(nodes[2], "cpu.outsider"));
}

TEST(ContradictedFindings, OfSeveralNodesAreVoidIfOneOfThemSharesAKernel) {
  const std::vector<NodeSummary> nodes = {node_of("n1", "a"), node_of("n2", "a"), node_of("n3", "b")};
  std::vector<Finding> findings = {found("cpu.outsider", {"n1", "n3"}), found("cpu.outsider", {"n3"}),
                                   found("mem.oom_killed", {"n1"}), found("of.another.version", {"n1"})};
  void_where_kernel_is_shared(nodes, findings);
  EXPECT_EQ(ids_of(findings), (std::vector<std::string>{"cpu.outsider", "mem.oom_killed", "of.another.version"}));
}

TEST(ContradictedFindings, AreHangsOfAJobThatEndedWell) {
  const auto left_in = [](const ReportJob& job) {
    std::vector<Finding> findings = {found("stack.hang", {"n1"}), found("cpu.outsider", {"n1"})};
    drop_what_did_not_end_the_job(job, findings);
    return ids_of(findings);
  };
  EXPECT_EQ(left_in({.exit_code = 0}), std::vector<std::string>{"cpu.outsider"});
  EXPECT_EQ(left_in({.exit_code = 1}).size(), 2U);
  EXPECT_EQ(left_in({}).size(), 2U) << "its end is not known";
}

TEST(ContradictedFindings, AreDeviationsThatAnotherNodeExplainsAtTheSameTime) {
  const TimeSpan job{0, 100 * kSecond};
  const auto left_beside = [&job](Finding known) {
    Finding unexplained = found(std::string(kUnexplained), {"n2"});
    unexplained.intervals = {{20 * kSecond, 30 * kSecond}};
    std::vector<Finding> findings = {std::move(known), std::move(unexplained)};
    drop_explained_elsewhere(job, findings);
    return findings.size() == 2;
  };
  Finding known = found("cpu.outsider", {"n1"});
  known.intervals = {{25 * kSecond, 35 * kSecond}};
  EXPECT_FALSE(left_beside(known)) << "half of both is the same time";
  known.intervals = {{26 * kSecond, 36 * kSecond}};
  EXPECT_TRUE(left_beside(known));
  known.intervals = {{20 * kSecond, 30 * kSecond}};
  known.severity = Severity::info;
  EXPECT_TRUE(left_beside(known)) << "an observation disturbs nobody";
  known.severity = Severity::notice;
  known.nodes = {"n2"};
  EXPECT_TRUE(left_beside(known)) << "the rule did not explain it on its own node";
  known.id = "node.straggler";
  known.kind = FindingKind::peer;
  EXPECT_FALSE(left_beside(known)) << "the others waited for this node";
  known.id = "cpu.outsider";
  known.nodes = {"n1"};
  EXPECT_TRUE(left_beside(known)) << "a difference of nodes is no disturbance";
  known.kind = FindingKind::anomaly;
  known.intervals = {job};
  EXPECT_TRUE(left_beside(known)) << "it lasts as long as the job";
}

}  // namespace
}  // namespace reveal::tests::contradicted_findings_test
