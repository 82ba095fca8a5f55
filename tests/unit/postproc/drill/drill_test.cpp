#include "postproc/drill/drill.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/drill/drill_program.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::drill_test {
namespace {

TimeSpan seconds(std::int64_t begin, std::int64_t end) {
  return {begin * kSecond, end * kSecond};
}

DrillTruth outsider_from(std::int64_t begin, std::int64_t end) {
  return {.disturbance = "outsider", .node = "n1", .span = seconds(begin, end)};
}

Finding found(const std::string& id, const std::string& node, TimeSpan span) {
  Finding finding{.id = id, .fingerprint = {}, .title = "A title", .sentence = {}};
  finding.severity = Severity::warning;
  finding.nodes = {node};
  finding.intervals = {span};
  return finding;
}

std::vector<std::string> states_of(const std::vector<DrillCheck>& checks) {
  std::vector<std::string> states;
  for (const DrillCheck& check : checks) states.push_back(check.name + " " + std::string(name_of(check.state)));
  return states;
}

using Names = std::vector<std::string>;

TEST(Drill, PassesWhereTheFindingHasItsRuleNodeAndInterval) {
  Report report;
  report.findings = {found("cpu.steal", "n2", seconds(1, 2)), found("cpu.outsider", "n1", seconds(101, 116))};
  const auto checks = check_drill_report(report, outsider_from(100, 115));
  EXPECT_EQ(states_of(checks), (Names{"finding passed", "node passed", "interval passed"}));
  EXPECT_EQ(checks[2].sentence,
            "00:01:41 to 00:01:56 UTC; the disturbance: 00:01:40 to 00:01:55 UTC; overlap of both 88 %");
  EXPECT_EQ(exit_status_of(verdict_of(checks)), 0);
}

TEST(Drill, FailsOfAnotherNodeOrTime) {
  Report report;
  report.findings = {found("cpu.outsider", "n2", seconds(10, 20))};
  const auto checks = check_drill_report(report, outsider_from(100, 115));
  EXPECT_EQ(states_of(checks), (Names{"finding passed", "node failed", "interval failed"}));
  EXPECT_EQ(exit_status_of(verdict_of(checks)), 1);
}

TEST(Drill, ChoosesTheIntervalThatFitsBest) {
  Report report;
  Finding finding = found("cpu.outsider", "n1", seconds(10, 20));
  finding.intervals.push_back(seconds(100, 115));
  report.findings = {found("cpu.outsider", "n1", seconds(1, 300)), finding};
  EXPECT_EQ(states_of(check_drill_report(report, outsider_from(100, 115)))[2], "interval passed");
}

TEST(Drill, SaysWhatTheReportHasInstead) {
  Report report;
  report.findings = {found("anomaly.unexplained", "n1", seconds(100, 115))};
  auto checks = check_drill_report(report, outsider_from(100, 115));
  EXPECT_EQ(states_of(checks), (Names{"finding failed", "node unknown", "interval unknown"}));
  EXPECT_NE(checks[0].sentence.find("the report has anomaly.unexplained at that time"), std::string::npos);
  report.not_checked = {{"cpu.outsider", "switched off in reveal.conf"}};
  checks = check_drill_report(report, outsider_from(100, 115));
  EXPECT_NE(checks[0].sentence.find("not checked (switched off in reveal.conf)"), std::string::npos);
}

TEST(Drill, IsUndecidedWhereOthersUsedTheCpuAllTheTime) {
  DrillTruth truth = outsider_from(100, 115);
  truth.job_share = 0.6;
  const auto checks = check_drill_report(Report{}, truth);
  EXPECT_EQ(states_of(checks)[0], "finding unknown");
  EXPECT_NE(checks[0].sentence.find("other processes took 40 % of the job's cpu meanwhile"), std::string::npos)
      << checks[0].sentence;
  EXPECT_EQ(exit_status_of(verdict_of(checks)), 3);
}

TEST(Drill, IsUndecidedWhereABusyNodeMovesTheIntervalOfAStop) {
  const TemporaryDirectory place;
  const DrillPlan plan{.place = place.path(), .disturbance = "stopped"};
  const DrillTruth happened{.disturbance = "stopped", .node = "n1", .span = seconds(100, 115)};
  std::ofstream(place.path() / "truth.json") << render_drill_truth(happened);
  std::ofstream(place.path() / "use.txt") << "96000000000 0\n98000000000 1000000000\n117000000000 2000000000\n"
                                             "119000000000 3000000000\n";
  const DrillTruth truth = truth_of_drill(plan);
  EXPECT_DOUBLE_EQ(truth.job_share, 0.5);
  Report report;
  report.findings = {found("job.stopped", "n1", seconds(96, 130))};
  const auto checks = check_drill_report(report, truth);
  EXPECT_EQ(states_of(checks), (Names{"finding passed", "node passed", "interval unknown"}));
  EXPECT_NE(checks[2].sentence.find("other processes took 50 % of the job's cpu meanwhile"), std::string::npos);
  EXPECT_EQ(exit_status_of(verdict_of(checks)), 3);
}

TEST(Drill, NotesTheUseOfTheCpuOfAProgramThatIsStopped) {
  const TemporaryDirectory place;
  const DrillPlan plan{.place = place.path(), .disturbance = "stopped", .seconds = 0.2};
  ChildProcess program = fork_child([&] { return run_drill_program(plan); });  // which lowers its priority
  EXPECT_EQ(exit_status(program.wait()), 0);
  EXPECT_EQ(truth_of_drill(plan).disturbance, "stopped");
  EXPECT_TRUE(std::filesystem::exists(place.path() / "use.txt"));
}

TEST(Drill, ComparesIntervals) {
  EXPECT_DOUBLE_EQ(overlap_over_union(seconds(0, 10), seconds(5, 15)), 5.0 / 15);
  EXPECT_EQ(overlap_over_union(seconds(0, 10), seconds(10, 20)), 0);
  EXPECT_EQ(overlap_over_union({}, {}), 0);
}

TEST(Drill, LooksForClosedTracesAndAllFilesOfAReport) {
  const TemporaryDirectory directory;
  const auto check = [&] { return check_drill_files(directory.path(), "n1"); };
  EXPECT_EQ(states_of(check()), (Names{"trace failed", "report failed"}));
  std::ofstream(directory.path() / "n1.h5.part") << "x";
  EXPECT_NE(check()[0].sentence.find("n1.h5.part was not closed"), std::string::npos);
  for (const char* name : {"n1.h5", "report.json", "report.txt", "report.html"}) {
    std::ofstream(directory.path() / name) << "x";
  }
  EXPECT_EQ(states_of(check()), (Names{"trace passed", "report passed"}));
  std::filesystem::remove(directory.path() / "report.html");
  EXPECT_EQ(check()[1].sentence, "missing: report.html");
}

TEST(Drill, ReadsItsRecordBackAndRefusesAnother) {
  DrillTruth truth = outsider_from(100, 115);
  truth.job_share = 0.5;
  const DrillTruth read = parse_drill_truth(render_drill_truth(truth));
  EXPECT_EQ(read.node, "n1");
  EXPECT_EQ(read.span, truth.span);
  EXPECT_EQ(read.job_share, 0.5);
  EXPECT_THROW(static_cast<void>(parse_drill_truth("")), Error);
  EXPECT_THROW(static_cast<void>(parse_drill_truth("{\"disturbance\": \"outsider\"")), Error);
  EXPECT_THROW(static_cast<void>(parse_drill_truth("{}")), Error);
  const std::string deep = ", \"more\": " + std::string(100, '[') + std::string(100, ']') + "}";
  const std::string text = render_drill_truth(truth);
  EXPECT_THROW(static_cast<void>(parse_drill_truth(text.substr(0, text.rfind('\n', text.size() - 2)) + deep)), Error);
  truth.disturbance = "flood";
  EXPECT_THROW(static_cast<void>(parse_drill_truth(render_drill_truth(truth))), Error);
}

TEST(Drill, PrintsALineForEachCheckAndTheVerdict) {
  const std::vector<DrillCheck> checks = {{"trace", DrillState::passed, "n1.h5"},
                                          {"mail", DrillState::skipped, "not configured"}};
  EXPECT_EQ(drill_as_text(checks, {}),
            "passed   trace     n1.h5\n"
            "skipped  mail      not configured\n"
            "the drill passed: 1 of 2 checks passed\n");
}

}  // namespace
}  // namespace reveal::tests::drill_test
