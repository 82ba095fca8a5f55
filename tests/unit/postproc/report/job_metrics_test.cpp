#include "postproc/report/job_metrics.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "report_samples.h"

namespace reveal::tests::job_metrics_test {
namespace {

TEST(JobMetrics, AreOpenMetricsForEveryReport) {
  const std::regex metadata("# (HELP|TYPE|UNIT) [a-z_]+ .+");
  const std::regex sample(R"re([a-z_]+\{job_id="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\} [-0-9.e+]+)re");
  for (const samples::Sample& one : samples::all()) {
    std::istringstream lines(report_as_metrics(one.report));
    std::set<std::string> described;
    std::string last;
    for (std::string line; std::getline(lines, line); last = line) {
      if (line == "# EOF") continue;
      EXPECT_TRUE(std::regex_match(line, metadata) || std::regex_match(line, sample)) << one.name << ": " << line;
      if (line.starts_with("# HELP")) {
        EXPECT_TRUE(described.insert(line.substr(0, line.find(' ', 7))).second) << line;
      }
    }
    EXPECT_EQ(last, "# EOF") << one.name;
  }
}

TEST(JobMetrics, HaveTheVerdictTheCostAndTheTotals) {
  Report report = samples::outsider(2);
  report.findings.resize(1);
  report.findings[0].id = "cpu.outsider";
  report.findings[0].severity = Severity::warning;
  report.findings[0].impact.seconds = 4.5;
  report.job.id = "47\"11";
  report.totals[0].cpu_seconds = 12.5;
  report.totals[0].energy_joules.reset();
  const std::string text = report_as_metrics(report);
  EXPECT_NE(text.find("reveal_job_info{job_id=\"47\\\"11\",verdict=\"finding\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find(
          "reveal_job_finding_cost_seconds{job_id=\"47\\\"11\",rule=\"cpu.outsider\",severity=\"warning\"} 4.5\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("# UNIT reveal_job_cpu_seconds seconds\nreveal_job_cpu_seconds{job_id=\"47\\\"11\"} 12.5\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("energy"), std::string::npos) << "not measured";
  for (const std::string& secret : {report.job.user, report.job.name}) {
    if (!secret.empty()) {
      EXPECT_EQ(text.find("\"" + secret + "\""), std::string::npos) << secret;
    }
  }
}

TEST(JobMetrics, NameNoDirectoryOfAJobWithoutANumber) {
  Report report = samples::outsider(2);
  report.job.id.clear();
  report.directory = "alice";
  report.report_id = "0f1e2d3c";
  const std::string text = report_as_metrics(report);
  EXPECT_EQ(text.find("alice"), std::string::npos) << "--output %u";
  EXPECT_NE(text.find("reveal_job_info{job_id=\"0f1e2d3c\",verdict=\"finding\"} 1\n"), std::string::npos) << text;
}

TEST(JobMetrics, KeepUpperBoundsApartAndAddNoFindings) {
  Report report = samples::outsider(2);
  report.findings.resize(1);
  report.findings[0].id = "cpu.outsider";
  report.findings[0].impact.seconds = 4.5;
  report.findings.push_back(report.findings[0]);
  report.findings[1].impact.seconds = 3;
  report.findings.push_back(report.findings[0]);
  report.findings[2].impact = {.seconds = 9, .at_most = true};
  const std::string text = report_as_metrics(report);
  for (const char* line : {"\nreveal_job_finding_cost_seconds{", "\nreveal_job_finding_cost_at_most_seconds{"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
  EXPECT_NE(text.find("} 4.5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("} 9\n"), std::string::npos) << text;
}

TEST(JobMetrics, CountAConsequenceWithItsCause) {
  Report report = samples::outsider(2);
  report.findings.resize(1);
  report.findings.push_back(report.findings[0]);
  report.findings[1].caused_by = report.findings[0].id;
  const std::string text = report_as_metrics(report);
  EXPECT_NE(text.find("\"} 1\n", text.find("reveal_job_findings{")), std::string::npos) << text;
}

TEST(JobMetrics, NameEveryTotalOnceAndItsUnitLast) {
  std::set<std::string_view> keys;
  std::set<std::string_view> metrics;
  for (const TotalsNumber& total : kTotalsNumbers) {
    EXPECT_TRUE(keys.insert(total.key).second) << total.key;
    EXPECT_TRUE(metrics.insert(total.metric).second) << total.metric;
    EXPECT_TRUE(total.metric.starts_with("reveal_job_")) << total.metric;
    const std::string unit = total.metric_unit.empty() ? "" : "_" + std::string(total.metric_unit);
    EXPECT_TRUE(total.metric.ends_with(unit)) << total.metric;
    EXPECT_TRUE(total.metric_help.ends_with('.')) << total.metric;
  }
}

TEST(JobMetrics, HaveARowForEveryTotal) {
  Report report = samples::outsider(2);
  for (const TotalsNumber& total : kTotalsNumbers) report.totals[0].*total.value = 7;
  const std::string text = report_as_metrics(report);
  std::size_t lines = 0;
  for (std::size_t at = text.find("} 7\n"); at != std::string::npos; at = text.find("} 7\n", at + 1)) ++lines;
  EXPECT_EQ(lines, std::size(kTotalsNumbers));
}

}  // namespace
}  // namespace reveal::tests::job_metrics_test
