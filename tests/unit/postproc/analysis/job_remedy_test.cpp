#include "postproc/analysis/job_remedy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "postproc/peers/job_rule.h"

namespace reveal::tests::job_remedy_test {
namespace {

using Lines = std::vector<std::string>;

Report job_of_three() {
  Report report;
  report.job.id = "4711";
  report.job.nodes = {"n1", "n2", "n3"};
  return report;
}

/// As a rule of the whole job makes it of one node.
Finding differing(const ReportJob& job, const std::string& node) {
  const RuleSpec& rule = *find_rule("node.differs");
  Finding finding = finding_of(rule, {node});
  finding.remedy = remedy_for(rule, job_values(finding, remedy_names(job)));
  return finding;
}

TEST(JobRemedy, NamesTheNodesThatAFindingIsAboutInTheEnd) {
  Report report = job_of_three();
  report.findings = {differing(report.job, "n1")};
  const Remedy of_one = report.findings[0].remedy;
  EXPECT_EQ(of_one.user,
            Lines{"#SBATCH --exclude=n1   # in one run: if another node differs then, the program is the cause"});
  EXPECT_EQ(of_one.admin, Lines{"diff <(ssh n1 sysctl -a) <(ssh n2 sysctl -a)   # and firmware, memory, services"});
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy, of_one);

  report.findings[0].nodes = {"n1", "n2"};  // merged with that of another node
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy.user,
            Lines{"#SBATCH --exclude='n[1-2]'   # in one run: if another node differs then, the program is the cause"});
  EXPECT_EQ(report.findings[0].remedy.admin,
            Lines{"diff <(ssh n1 sysctl -a) <(ssh n3 sysctl -a)   # and firmware, memory, services"});

  report.findings[0].evidence = {{.metric = "pressure.io_some", .node = "n2"}};
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy.admin,
            Lines{"diff <(ssh n2 sysctl -a) <(ssh n3 sysctl -a)   # and firmware, memory, services"})
      << "the sentence is about n2";
}

TEST(JobRemedy, ComparesWithANodeOfTheSameModelAndWork) {
  Report report = job_of_three();
  report.job.nodes = {"big1", "n1", "n2", "n3"};
  report.comparison.facts = {{"machine.model", {"big1"}, "R7525", "C6525"}};
  const auto command = [&report] {
    report.findings = {differing(report.job, "n1")};
    name_nodes_in_remedies(report);
    return report.findings[0].remedy.admin.at(0);
  };
  EXPECT_TRUE(command().starts_with("diff <(ssh n1 sysctl -a) <(ssh n2 sysctl -a)")) << command();
  report.comparison.groups = {{{"n1", "n3"}, true, "", 60, 9}, {{"n2"}, false, "", 60, 9}};
  EXPECT_TRUE(command().starts_with("diff <(ssh n1 sysctl -a) <(ssh n3 sysctl -a)")) << command();
  report.job.nodes = {"big1", "n1"};
  EXPECT_TRUE(command().starts_with("diff <(ssh n1 sysctl -a) <(ssh big1 sysctl -a)")) << "there is no other";
}

TEST(JobRemedy, NamesTwoThousandNodesInOneWord) {
  Report report = job_of_three();
  report.job.nodes = {"login"};
  report.findings = {differing(report.job, "n0001")};
  report.findings[0].nodes.clear();
  for (int node = 1; node <= 2000; ++node) {
    std::string number = std::to_string(node);
    report.findings[0].nodes.push_back("n" + number.insert(0, 4 - number.size(), '0'));
  }
  name_nodes_in_remedies(report);
  EXPECT_EQ(
      report.findings[0].remedy.user,
      Lines{"#SBATCH --exclude='n[0001-2000]'   # in one run: if another node differs then, the program is the cause"});
  EXPECT_EQ(report.findings[0].remedy.admin,
            Lines{"diff <(ssh n0001 sysctl -a) <(ssh login sysctl -a)   # and firmware, memory, services"});

  for (std::string& node : report.findings[0].nodes) node += "x";  // which no list folds
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy.user, Lines{}) << "too long to be typed, and the line of before is wrong";
}

TEST(JobRemedy, KeepsTheOtherValuesOfALine) {
  const std::vector<RemedyLine> table{"a {disk} on {nodes}   # on {node}", "On {nodes}, check {disk}."};
  JobValues values{{"disk", "sda"}, {"nodes", "n1"}, {"node", "n1"}};
  Lines lines = lines_for(table, values);
  lines.emplace_back("another line");
  fill_again(lines, table, {{"nodes", "n[1-2]"}, {"node", "n1"}});
  EXPECT_EQ(lines, (Lines{"a sda on 'n[1-2]'   # on n1", "On n[1-2], check sda.", "another line"}));
  fill_again(lines, table, {{"nodes", "n3"}, {"node", "n3"}});
  EXPECT_EQ(lines, (Lines{"a sda on n3   # on n3", "On n3, check sda.", "another line"}));
}

TEST(JobRemedy, LeavesNoNodeOutWhereAllAreAffected) {
  Report report = job_of_three();
  report.findings = {differing(report.job, "n1")};
  report.findings[0].nodes = report.job.nodes;
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy.user, Lines{});
}

TEST(JobRemedy, OfARuleOfTheWholeJobHasWhatTheRuleKnows) {
  const Report report = job_of_three();
  PeerComparison comparison;
  comparison.facts = {{"net.eth0.mtu", {"n2"}, "1500", "9000"}};
  const auto findings =
      run_job_rules({.comparison = comparison, .nodes = {}, .job = {}, .names = remedy_names(report.job)});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "net.mtu_mismatch");
  EXPECT_EQ(findings[0].remedy.user,
            Lines{"tracepath -n n1   # on n2: pmtu is the largest packet that the path allows"});
  ASSERT_EQ(findings[0].remedy.admin.size(), 2U);
  EXPECT_TRUE(findings[0].remedy.admin[0].starts_with("ip link show ")) << findings[0].remedy.admin[0];
  EXPECT_EQ(findings[0].remedy.admin[1],
            "ip link set dev eth0 mtu 9000   # changes n2 until its next boot; also in its network configuration");
  EXPECT_FALSE(findings[0].remedy.verify.empty());
}

}  // namespace
}  // namespace reveal::tests::job_remedy_test
