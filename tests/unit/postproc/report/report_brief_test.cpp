// The lines that a run prints at its end.
#include <gtest/gtest.h>

#include "postproc/report/report.h"
#include "postproc/report/wording.h"
#include "postproc/words/sanitize.h"
#include "report_pages.h"
#include "report_samples.h"

namespace reveal::tests::report_brief_test {
namespace {

TEST(ReportBrief, IsSixLinesAtMostWhateverThereIsToSay) {
  for (const samples::Sample& sample : samples::all()) {
    for (const int width : {60, 80, 100}) {
      SCOPED_TRACE(sample.name + " at " + std::to_string(width));
      const std::vector<std::string> lines = lines_of(render_brief(sample.report, {.width = width}));
      EXPECT_LE(lines.size(), 6U);
      for (const std::string& line : lines) {
        // A path is never cut.
        EXPECT_TRUE(columns(line) <= static_cast<std::size_t>(width) || line.find("reveal-2") != std::string::npos)
            << line;
      }
    }
  }
}

TEST(ReportBrief, SaysWhatHappenedWhatItCostHowSureThatIsWhatToDoAndWhereItIs) {
  Report report = samples::failed();
  report.verdict = {VerdictStatus::finding, "cpu.outsider",
                    "Processes outside the job used 1.5 cpus of vm for 59.7 s. The job lost about 29 s.", false};
  report.findings = samples::outsider(2).findings;
  report.findings[0].remedy.user = {"taskset -c 3 make"};
  EXPECT_EQ(render_brief(report, {.directory = "reveal-20261122-191314-26256"}),
            "reveal: FINDING  Processes outside the job used 1.5 cpus of vm for 59.7 s. The\n"
            "        job lost about 29 s.\n"
            "  cost         about 7.1 s (5.9 % of the run); cause certain\n"
            "  start with   taskset -c 3 make\n"
            "  report       ./reveal-20261122-191314-26256/report.html\n"
            "  again        reveal show reveal-20261122-191314-26256\n");
}

TEST(ReportBrief, SaysTheCostWhereTheSentenceIsCut) {
  Report report = samples::failed();
  report.findings = samples::outsider(2).findings;
  report.findings[0].remedy.user = {"taskset -c 3 make"};
  report.findings[0].impact = {.seconds = 29, .percent = 48, .how = "it waited"};
  report.verdict = {VerdictStatus::finding, "cpu.outsider",
                    "Processes outside the job used 1.5 cpus of vm for 59.7 s (usually 0). Among them: make (process "
                    "28621 of root, 1 cpus), cc1plus (process 28634 of root, 0.5 cpus). The job lost about 29 s.",
                    false};
  EXPECT_EQ(render_brief(report, {.directory = "run"}),
            "reveal: FINDING  Processes outside the job used 1.5 cpus of vm for 59.7 s\n"
            "        (usually 0). Among them: make (process 28621 of root, 1 cpus)...\n"
            "  cost         about 29 s (48 % of the run); cause certain\n"
            "  start with   taskset -c 3 make\n"
            "  report       ./run/report.html\n"
            "  again        reveal show run\n");
}

Report disturbed() {
  Report report = samples::failed();
  report.findings = samples::outsider(2).findings;
  report.verdict = {VerdictStatus::finding, "job.stopped",
                    "A signal or a debugger stopped processes of the job on node1 for at least 2.5 s in total, within "
                    "10.9 s. The job lost about 2.65 s.",
                    false};
  return report;
}

TEST(ReportBrief, GivesAdviceTwoLinesSoThatItDoesNotEndBeforeItSaysWhatToDo) {
  Report report = disturbed();
  report.findings[0].remedy = {.user = {},
                               .advice = {"If the administrators did not suspend the job, look for a program "
                                          "that sends SIGSTOP, or a debugger."}};
  EXPECT_EQ(render_brief(report, {.directory = "run"}),
            "reveal: FINDING  A signal or a debugger stopped processes of the job on node1\n"
            "        for at least 2.5 s in total, within 10.9 s. The job lost about 2.65 s.\n"
            "  cost         about 7.1 s (5.9 % of the run); cause certain\n"
            "  to change    If the administrators did not suspend the job, look for a program\n"
            "               that sends SIGSTOP, or a debugger.\n"
            "  again        reveal show run  # or ./run/report.html\n");
}

TEST(ReportBrief, SaysWhoActsOrThatALineIsTooLong) {
  Report report = disturbed();
  Remedy& remedy = report.findings[0].remedy;
  remedy = {.user = {"nstat -az"}, .advice = {}, .admin = {"Reseat the cable."}};
  EXPECT_NE(render_brief(report).find("  for you      show your administrators this report; the job needs no change\n"),
            std::string::npos)
      << render_brief(report);
  remedy = {.user = {"export NAMES=" + std::string(70, 'x')}, .advice = {}, .admin = {}};
  EXPECT_NE(render_brief(report).find("  to change    a line too long for here: the command below prints it\n"),
            std::string::npos)
      << render_brief(report);
  remedy = {};
  EXPECT_EQ(render_brief(report).find("to change"), std::string::npos) << "nobody knows what to do";
}

TEST(ReportBrief, PrefersAdviceToAToolThatExaminesTheProgram) {
  Report report = samples::failed();
  report.verdict = {VerdictStatus::finding, "gpu.small_kernels", "The job's GPUs ran very short kernels.", false};
  report.findings = samples::outsider(2).findings;
  report.findings[0].remedy = {.user = {"nsys profile -d 30"}, .advice = {"Use larger batches."}, .admin = {}};
  EXPECT_NE(render_brief(report, {}).find("  to change    Use larger batches.\n"), std::string::npos);
  report.findings[0].remedy.advice.clear();
  EXPECT_NE(render_brief(report, {}).find("  run under    nsys profile -d 30\n"), std::string::npos);
}

TEST(ReportBrief, KeepsTheLastClauseOfAFailure) {
  Report report = samples::failed();
  report.findings.clear();
  report.verdict = {VerdictStatus::healthy, "",
                    "The command failed: ended by SIGABRT (exit status 134) after 36 s. Nothing unusual was found on "
                    "the node; check the program's own output.",
                    true};
  const std::vector<std::string> lines = lines_of(render_brief(report, {.directory = "out"}));
  EXPECT_LE(lines.size(), 6U);
  ASSERT_GT(lines.size(), 2U);
  EXPECT_TRUE((lines[1] + lines[2]).ends_with("program's own        output.")) << lines[1] << "\n" << lines[2];
}

TEST(ReportBrief, LeavesOutTheLaterTotalsRatherThanOnesInBetween) {
  Report report = samples::healthy();
  report.totals.front().network_bytes = 0;
  EXPECT_NE(render_text(report).find("network 0 bytes"), std::string::npos) << "measured, and nothing";
  report.totals.front().network_bytes.reset();
  EXPECT_EQ(render_text(report).find("network"), std::string::npos) << "not measured is no 0";
  const std::vector<std::string> parts = used(report.totals.front());
  for (const int width : {60, 80, 100, 200}) {
    const std::string brief = render_brief(report, {.width = width});
    bool ended = false;
    for (const std::string& part : parts) {
      const bool there = brief.find(part) != std::string::npos;
      EXPECT_FALSE(ended && there) << width << ": " << part;
      ended = ended || !there;
    }
  }
}

TEST(ReportBrief, NamesTheNextStepAfterARunInWhichNothingWasFound) {
  const std::string line = "  if slow      reveal compare FASTER_RUN run\n";
  const std::string brief = render_brief(samples::healthy(), {.directory = "run"});
  EXPECT_NE(brief.find(line), std::string::npos) << brief;
  EXPECT_LE(lines_of(brief).size(), 6U) << brief;
  EXPECT_NE(render_text(samples::healthy(), {.directory = "run"}).find(line), std::string::npos);
  EXPECT_EQ(render_text(samples::healthy(), {.part = TextPart::episodes, .directory = "run"}).find(line),
            std::string::npos);
  for (const Report& report : {samples::outsider(2), samples::failed(), samples::insufficient()}) {
    EXPECT_EQ(render_text(report, {.directory = "run"}).find("FASTER_RUN"), std::string::npos);
    EXPECT_EQ(render_brief(report, {.directory = "run"}).find("FASTER_RUN"), std::string::npos);
  }
}

TEST(ReportBrief, IsOneLineForWhatIsTooShortToBeJudged) {
  EXPECT_EQ(render_brief(samples::insufficient()),
            "reveal: 2 windows of 3 s, at least 30 are needed. (reveal show reveal-20251120-103205-4242)\n");
}

TEST(ReportBrief, ShortensASentenceBetweenItsParts) {
  EXPECT_EQ(shortened("Twelve words fit; the other ones do not.", 40), "Twelve words fit; the other ones do not.");
  EXPECT_EQ(shortened("Twelve words fit; the other ones do not.", 30), "Twelve words fit...");
  EXPECT_EQ(shortened("Twelve words fit the other ones do not.", 30), "Twelve words fit the other...");
}

}  // namespace
}  // namespace reveal::tests::report_brief_test
