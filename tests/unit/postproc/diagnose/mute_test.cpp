#include "postproc/diagnose/mute.h"

#include <gtest/gtest.h>

#include "config_of.h"
#include "postproc/report/report.h"

namespace reveal::tests::mute_test {
namespace {

AnalysisSettings muted(const std::string& rows) {
  return analysis_settings(config_of("[report]\nmute = [" + rows + "]\n"));
}

Finding on(const std::string& rule, const std::vector<std::string>& nodes, Severity severity = Severity::warning) {
  Finding finding;
  finding.id = rule;
  finding.title = "A title";
  finding.severity = severity;
  finding.nodes = nodes;
  return finding;
}

TEST(Mute, TakesOutARuleOnItsNodeAndNamesTheLine) {
  std::vector<Finding> findings = {on("cpu.outsider", {"n03"}), on("cpu.outsider", {"n04"}), on("cpu.steal", {"n03"})};
  const auto aside = take_muted(findings, muted("\"cpu.outsider@n03\""));
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_EQ(aside[0].id, "cpu.outsider");
  EXPECT_EQ(aside[0].nodes, std::vector<std::string>{"n03"});
  EXPECT_EQ(aside[0].reason, "cpu.outsider@n03 in reveal.conf:2");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n04"});
}

TEST(Mute, ListsSeveralIntervalsOnceWithTheWorstSeverity) {
  std::vector<Finding> findings = {on("cpu.outsider", {"n03"}), on("cpu.outsider", {"n03"}, Severity::critical)};
  const auto aside = take_muted(findings, muted("\"cpu.outsider@n03\""));
  ASSERT_EQ(aside.size(), 1U);
  EXPECT_EQ(aside[0].severity, Severity::critical);
  EXPECT_TRUE(findings.empty());
}

TEST(Mute, TakesPatternsAndARuleOnAllNodes) {
  const AnalysisSettings settings = muted("\"cpu.*@gpu[12]\", \"mem.swap_activity\"");
  EXPECT_NE(mute_of(settings, "cpu.steal", "gpu2"), nullptr);
  EXPECT_EQ(mute_of(settings, "cpu.steal", "gpu3"), nullptr);
  EXPECT_NE(mute_of(settings, "mem.swap_activity", "anywhere"), nullptr);
  EXPECT_EQ(mute_of(settings, "mem.swap", "anywhere"), nullptr) << "a part of an id is another id";
}

TEST(Mute, KeepsAFindingOfSeveralNodesUnlessAllAreMuted) {
  std::vector<Finding> findings = {on("net.mtu_mismatch", {"n1", "n2"})};
  EXPECT_TRUE(take_muted(findings, muted("\"net.mtu_mismatch@n1\"")).empty());
  EXPECT_EQ(findings.size(), 1U);
  EXPECT_EQ(take_muted(findings, muted("\"net.mtu_mismatch@n1\", \"net.mtu_mismatch@n2\"")).size(), 1U);
  EXPECT_TRUE(findings.empty());
}

TEST(Mute, NeverTakesAFindingWithoutANode) {
  std::vector<Finding> findings = {on("cpu.outsider", {})};
  EXPECT_TRUE(take_muted(findings, muted("\"cpu.outsider\"")).empty());
  EXPECT_EQ(findings.size(), 1U);
}

TEST(Mute, ReportsRowsThatMuteNothing) {
  const auto problem = [](const std::string& row) {
    const Config config = config_of("[report]\nmute = [\"" + row + "\"]\n");
    const auto problems = config.problems_of({"report"});
    return problems.empty() ? "" : problems.front();
  };
  EXPECT_EQ(problem("cpu.outsider@n03"), "");
  EXPECT_NE(problem("cpu.outsidr@n03").find("names no rule"), std::string::npos) << problem("cpu.outsidr@n03");
  EXPECT_NE(problem("cpu.outsider@").find("names no node"), std::string::npos);
  EXPECT_NE(problem("@n03").find("names no rule"), std::string::npos);
}

TEST(Mute, IsListedOnThePageAndInTheData) {
  Report report;
  report.muted = {{"cpu.outsider", "A title", Severity::warning, {"n03"}, "cpu.outsider@n03 in reveal.conf:2"}};
  EXPECT_NE(render_text(report).find("muted        cpu.outsider on n03: warning (cpu.outsider@n03 in reveal.conf:2)"),
            std::string::npos)
      << render_text(report);
  EXPECT_NE(render_html(report).find("cpu.outsider on n03: warning"), std::string::npos);
  EXPECT_EQ(parse_report(render_json(report)).muted, report.muted);
}

}  // namespace
}  // namespace reveal::tests::mute_test
