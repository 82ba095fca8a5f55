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
  EXPECT_EQ(of_one.user, Lines{"sbatch --exclude=n1 ...   # once: does the difference stay with the node"});
  EXPECT_EQ(of_one.admin, Lines{"diff <(ssh n1 sysctl -a) <(ssh n2 sysctl -a)   # and firmware, memory, services"});
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy, of_one);

  report.findings[0].nodes = {"n1", "n2"};  // merged with that of another node
  name_nodes_in_remedies(report);
  EXPECT_EQ(report.findings[0].remedy.user,
            Lines{"sbatch --exclude=n1,n2 ...   # once: does the difference stay with the node"});
  EXPECT_EQ(report.findings[0].remedy.admin,
            Lines{"diff <(ssh n1 sysctl -a) <(ssh n3 sysctl -a)   # and firmware, memory, services"});
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
  EXPECT_EQ(findings[0].remedy.admin[0], "ip link set dev eth0 mtu 9000   # on n2, and in its network configuration");
  EXPECT_FALSE(findings[0].remedy.verify.empty());
}

}  // namespace
}  // namespace reveal::tests::job_remedy_test
