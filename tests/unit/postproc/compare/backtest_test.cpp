#include "postproc/compare/backtest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"

namespace reveal::tests::backtest_test {
namespace {

const std::vector<std::string> kRules = {"cpu.outsider"};

Finding finding_of(const char* rule, std::vector<std::string> nodes, double seconds) {
  Finding finding;
  finding.id = rule;
  finding.severity = Severity::warning;
  finding.nodes = std::move(nodes);
  finding.impact.seconds = seconds;
  return finding;
}

Report report_with(std::vector<Finding> findings) {
  Report report;
  report.findings = std::move(findings);
  return report;
}

BacktestOutcome outcome(const Report& before, const Report& after) {
  return outcome_of(compare_findings(before, after, kRules).rules.at(0));
}

TEST(Backtest, TellsWhatAppearedWentChangedAndStayed) {
  const Report nothing = report_with({});
  const Report one = report_with({finding_of("cpu.outsider", {"n1"}, 10)});
  const Report two = report_with({finding_of("cpu.outsider", {"n1"}, 10), finding_of("cpu.outsider", {"n2"}, 2)});
  Report blind;
  blind.not_checked = {{"cpu.outsider", "not measured"}};
  EXPECT_EQ(outcome(nothing, nothing), BacktestOutcome::without);
  EXPECT_EQ(outcome(nothing, one), BacktestOutcome::appeared);
  EXPECT_EQ(outcome(one, nothing), BacktestOutcome::went);
  EXPECT_EQ(outcome(one, one), BacktestOutcome::same);
  EXPECT_EQ(outcome(one, two), BacktestOutcome::changed);
  EXPECT_EQ(outcome(one, blind), BacktestOutcome::not_checked);
  EXPECT_EQ(outcome(blind, blind), BacktestOutcome::not_checked);
  const RuleResult both = compare_findings(one, two, kRules).rules.at(0).after;
  EXPECT_EQ(both.nodes, 2U);
  EXPECT_EQ(both.findings, 2U);
  EXPECT_EQ(both.seconds, 12);
}

TEST(Backtest, CountsARuleThatWasCheckedOnSomeNodes) {
  Report before = report_with({finding_of("cpu.outsider", {"n1"}, 10)});
  Report after;
  for (Report* report : {&before, &after}) {
    report->not_checked = {{"cpu.outsider", "not measured (on 1 of 4 nodes)", true}};
  }
  EXPECT_EQ(outcome(before, after), BacktestOutcome::went);
  EXPECT_EQ(outcome(after, after), BacktestOutcome::without);
}

TEST(Backtest, NamesOtherRulesToWhichTheChangeLed) {
  const BacktestedJob job = compare_findings(
      report_with({finding_of("cpu.outsider", {"n1"}, 10), finding_of("mem.swap_activity", {"n1"}, 1)}),
      report_with({finding_of("anomaly.unexplained", {"n1"}, 10), finding_of("mem.swap_activity", {"n1"}, 1)}), kRules);
  EXPECT_EQ(job.appeared, std::vector<std::string>{"anomaly.unexplained"});
  EXPECT_TRUE(job.went.empty());
}

TEST(Backtest, AddsUpJobs) {
  const Report nothing = report_with({});
  const Report one = report_with({finding_of("cpu.outsider", {"n1"}, 10)});
  Report blind;
  blind.not_checked = {{"cpu.outsider", "not measured"}};
  std::vector<BacktestedJob> jobs = {compare_findings(one, nothing, kRules), compare_findings(one, one, kRules),
                                     compare_findings(nothing, nothing, kRules),
                                     compare_findings(blind, blind, kRules)};
  jobs.emplace_back().failure = "damaged";
  const auto totals = totals_of(jobs, kRules);
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].jobs, 4U);
  EXPECT_EQ(totals[0].before, 2U);
  EXPECT_EQ(totals[0].after, 1U);
  EXPECT_EQ(totals[0].went, 1U);
  EXPECT_EQ(totals[0].same, 1U);
  EXPECT_EQ(totals[0].without, 1U);
  EXPECT_EQ(totals[0].not_checked, 1U);
}

TEST(Backtest, PrintsBeforeAndAfter) {
  Backtest backtest;
  backtest.changes = {{"cpu.outsider", "min_cpu", "0.15", "0.5"}};
  backtest.jobs = {compare_findings(report_with({finding_of("cpu.outsider", {"n1"}, 10)}), report_with({}), kRules)};
  backtest.jobs[0].directory = "reveal-1\x1b[2J";
  backtest.jobs.emplace_back().failure = "reveal-2/n1.h5: is not an HDF5 file";
  backtest.totals = totals_of(backtest.jobs, kRules);
  EXPECT_EQ(backtest_as_text(backtest, {}),
            "cpu.outsider.min_cpu: 0.15 -> 0.5\n"
            "\n"
            "disappeared  reveal-1: warning on 1 node, 10 s -> not found\n"
            "\n"
            "cpu.outsider: in 1 of 1 job before, in 0 after; 0 appeared, 1 disappeared, 0 changed, 0 same\n"
            "not analysed: reveal-2/n1.h5: is not an HDF5 file\n");
  const auto json = nlohmann::json::parse(backtest_as_json(backtest));
  EXPECT_EQ(json["jobs"][0]["rules"][0]["outcome"], "went");
  EXPECT_EQ(json["totals"][0]["went"], 1);
}

TEST(Backtest, ReadsBackWhatTheChildAnswered) {
  const BacktestedJob job =
      compare_findings(report_with({finding_of("cpu.outsider", {"n1"}, 10)}), report_with({}), kRules);
  const BacktestedJob read = parse_backtested(render_backtested(job));
  ASSERT_EQ(read.rules.size(), 1U);
  EXPECT_EQ(read.rules[0].before, job.rules[0].before);
  EXPECT_EQ(read.rules[0].after, job.rules[0].after);
  for (const char* text : {"", "{", "{\"rules\": 7}", "{\"rules\": [{\"before\": {\"state\": \"sure\"}}]}"}) {
    EXPECT_THROW((void)parse_backtested(text), Error) << text;
  }
}

}  // namespace
}  // namespace reveal::tests::backtest_test
