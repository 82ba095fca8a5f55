// The one sentence that people read: it must hold whatever happened to the job, its nodes and its data.
#include "postproc/report/verdict.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"
#include "postproc/report/job_ending.h"

namespace reveal::tests::verdict_test {
namespace {

Report report_of(std::vector<std::string> nodes, double seconds = 35.4) {
  Report report;
  report.job.nodes = std::move(nodes);
  report.job.begin_utc_ns = kSecond;
  report.job.end_utc_ns = kSecond + static_cast<std::int64_t>(seconds * 1e9);
  return report;
}

Finding finding_of(const char* id, Severity severity, std::optional<double> seconds) {
  Finding finding;
  finding.id = id;
  finding.sentence = std::string(id) + " happened.";
  finding.severity = severity;
  finding.confidence = Confidence::likely;
  finding.nodes = {"n01"};
  finding.intervals = {{kSecond, 2 * kSecond}};
  finding.impact.seconds = seconds;
  return finding;
}

std::string judged(Report& report, const NotJudged& not_judged = {}) {
  judge(report, not_judged);
  return report.verdict.sentence;
}

TEST(Verdict, NamesTheNodesOfThreadsOnSeveral) {
  Finding first = finding_of("net.slow", Severity::notice, 3);
  first.main_threads = {"the main thread of slot3 was in load"};
  first.interventions = {{.node = "n01", .sentence = "reveal widened cpus.", .effects = {}}};
  Finding second = first;
  second.nodes = {"n02"};
  const std::vector<Finding> merged = merge_findings({first, second});
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].main_threads, (std::vector<std::string>{"n01: the main thread of slot3 was in load",
                                                              "n02: the main thread of slot3 was in load"}));
  EXPECT_EQ(merged[0].interventions.size(), 2U);
  EXPECT_EQ(merge_findings({first}).at(0).main_threads, first.main_threads);
}

TEST(Verdict, SaysHowAFailedCommandEnded) {
  Report report = report_of({"vm"});
  report.job.ran_seconds = 36.02;
  report.job.exit_code = 134;
  EXPECT_EQ(judged(report),
            "The command failed: ended by SIGABRT (exit status 134) after 36 s. Nothing unusual was found on the "
            "node; check the program's own output.");
  EXPECT_EQ(report.verdict.status, VerdictStatus::healthy);
  EXPECT_TRUE(report.verdict.job_failed);
  report.job.exit_code = 139;
  EXPECT_NE(judged(report).find("ended by SIGSEGV (exit status 139) after 36 s."), std::string::npos);
  report.job.exit_code = 7;
  EXPECT_TRUE(judged(report).starts_with("The command failed with exit status 7 after 36 s. Nothing unusual"));
  report.job.exit_code = 130;
  EXPECT_TRUE(judged(report).starts_with("The command was interrupted (SIGINT, exit status 130) after 36 s."));
  report.job.exit_code = 255;
  EXPECT_TRUE(judged(report).starts_with("The command failed with exit status 255 after 36 s."));
}

TEST(Verdict, BlamesTheOutOfMemoryKillerOnlyWhenItWasSeen) {
  Report report = report_of({"vm"});
  report.job.exit_code = 137;
  report.job.oom_kills = 0;
  EXPECT_NE(judged(report).find("; a user, a limit or the kernel's out-of-memory killer sent it."), std::string::npos);
  report.job.oom_kills = 1;
  EXPECT_NE(judged(report).find("after 35.4 s; the kernel's out-of-memory killer ended a process meanwhile."),
            std::string::npos);
}

TEST(Verdict, UsesTheBatchSystemsWordForAJobThatItEnded) {
  const struct {
    const char* state;
    const char* words;
  } cases[] = {{"OUT_OF_MEMORY", "The job was ended because it ran out of memory after 35.4 s."},
               {"TIMEOUT", "The job was ended at its time limit after 35.4 s."},
               {"CANCELLED", "The job was cancelled after 35.4 s."},
               {"NODE_FAIL", "The job was ended by the failure of a node after 35.4 s."},
               {"REQUEUED", "The job was ended and queued again after 35.4 s."},
               {"FAILED", "The job failed after 35.4 s."}};
  for (const auto& [state, words] : cases) {
    Report report = report_of({"n01"});
    report.job.state = state;
    EXPECT_TRUE(judged(report).starts_with(words)) << report.verdict.sentence;
    EXPECT_TRUE(report.verdict.job_failed) << state;
  }
}

TEST(Verdict, PutsTheFailureBeforeTheFindingAndTheMissingData) {
  Report report = report_of({"vm"});
  report.job.exit_code = 1;
  report.findings = {finding_of("cpu.outsider", Severity::warning, 9)};
  EXPECT_EQ(judged(report),
            "The command failed with exit status 1 after 35.4 s. cpu.outsider happened. The job lost about 9 s.");
  EXPECT_EQ(report.verdict.status, VerdictStatus::finding);
  report.findings.clear();
  EXPECT_EQ(judged(report, {{"vm", "2.1 s were recorded, at least 32 s are needed"}}),
            "The command failed with exit status 1 after 35.4 s. Too little was recorded to judge the run: 2.1 s were "
            "recorded, at least 32 s are needed.");
  EXPECT_EQ(report.verdict.status, VerdictStatus::insufficient_data);
}

TEST(Verdict, AssertsNoCauseThatIsOnlyPossible) {
  Report report = report_of({"n01", "n02"}, 120);
  report.job.nodes_missing = {"n04"};
  report.findings = {finding_of("mem.swap_activity", Severity::warning, 9)};
  report.findings[0].confidence = Confidence::possible;
  EXPECT_EQ(judged(report), "mem.swap_activity happened. This may have cost about 9 s; there is no data of n04.");
  report.job.nodes_missing.clear();
  report.findings = {finding_of("mem.swap_activity", Severity::notice, std::nullopt)};
  report.findings[0].confidence = Confidence::possible;
  EXPECT_EQ(judged(report), "mem.swap_activity happened. Another cause is possible. The cost is not known.");
}

TEST(Verdict, NamesTheNodesItCannotSpeakFor) {
  Report report = report_of({"n01", "n02", "n03"}, 120);
  report.job.nodes_missing = {"n04"};
  EXPECT_EQ(judged(report), "No problem found in 2 min on 3 of 4 nodes; there is no data of n04.");
  EXPECT_EQ(judged(report, {{"n03", "9 s were recorded"}}),
            "No problem found in 2 min on 2 of 4 nodes; there is no data of n04; too little was measured on n03.");
  report.findings = {finding_of("cpu.outsider", Severity::warning, 9)};
  EXPECT_EQ(judged(report), "cpu.outsider happened. The job lost about 9 s; there is no data of n04.");
}

TEST(Verdict, IsNotHealthyWhereDamageOfAnyNodeMayHideAFinding) {
  Report report = report_of({"n01", "n02"}, 120);
  report.partial = true;
  const NotJudged damaged = {{"n02", "", "memory/vmstat: the checksum of a chunk is wrong"}};
  EXPECT_EQ(judged(report, damaged),
            "The run cannot be judged: the trace of n02 is damaged (memory/vmstat: the checksum of a chunk is wrong).");
  EXPECT_EQ(report.verdict.status, VerdictStatus::insufficient_data);
  report.findings = {finding_of("cpu.outsider", Severity::notice, std::nullopt)};
  judge(report, damaged);
  EXPECT_EQ(report.verdict.status, VerdictStatus::insufficient_data) << "a costly one may be hidden";
  report.findings = {finding_of("cpu.outsider", Severity::warning, 9)};
  EXPECT_EQ(judged(report, damaged),
            "cpu.outsider happened. The job lost about 9 s; part of the trace of n02 is damaged (see coverage).");
  EXPECT_EQ(report.verdict.status, VerdictStatus::finding);
}

TEST(Verdict, IsTheDearestFinding) {
  const auto ids = [](std::vector<Finding> findings) {
    std::string all;
    for (const Finding& finding : merge_findings(std::move(findings))) all += finding.id + " ";
    return all;
  };
  EXPECT_EQ(ids({finding_of("cpu.affinity_too_narrow", Severity::warning, 2),
                 finding_of("cpu.outsider", Severity::warning, 9)}),
            "cpu.outsider cpu.affinity_too_narrow ");
  EXPECT_EQ(ids({finding_of("mem.leak_oom_risk", Severity::warning, std::nullopt),
                 finding_of("net.tcp_retrans_fault", Severity::warning, 1)}),
            "net.tcp_retrans_fault mem.leak_oom_risk ");
  EXPECT_EQ(
      ids({finding_of("mem.leak_oom_risk", Severity::warning, 29), finding_of("cpu.outsider", Severity::critical, 28)}),
      "cpu.outsider mem.leak_oom_risk ");
  EXPECT_EQ(ids({finding_of("cpu.outsider", Severity::warning, 2),
                 finding_of("cpu.affinity_too_narrow", Severity::warning, 2)}),
            "cpu.affinity_too_narrow cpu.outsider ")
      << "the order of the rules only decides a tie";
  Finding slower = finding_of("history.slower", Severity::warning, 40);
  slower.kind = FindingKind::history;
  EXPECT_EQ(ids({slower, finding_of("cpu.outsider", Severity::warning, 13)}), "cpu.outsider history.slower ")
      << "a cause comes before what it adds up to";
}

TEST(Verdict, IsTheEventRatherThanAStateOfTheWholeJobWhereNoCostTellsThemApart) {
  const auto lasting = [](Finding finding, std::int64_t begin, std::int64_t end) {
    finding.intervals = {{begin * kSecond, end * kSecond}};
    return finding;
  };
  const auto ids = [](std::vector<Finding> findings) {
    Report report = report_of({"n01", "n02"}, 100);  // from 1 s to 101 s
    report.findings = std::move(findings);
    judge(report, {});
    std::string all;
    for (const Finding& finding : report.findings) all += finding.id + " ";
    return all;
  };
  const Finding crowd = lasting(finding_of("cpu.oversubscribed", Severity::notice, std::nullopt), 2, 101);
  Finding setting = lasting(finding_of("nccl.debug_env_left", Severity::notice, std::nullopt), 1, 101);
  setting.confidence = Confidence::certain;
  Finding leak = lasting(finding_of("mem.leak_oom_risk", Severity::notice, std::nullopt), 30, 41);
  leak.confidence = Confidence::possible;
  const Finding unexplained = lasting(finding_of("anomaly.unexplained", Severity::notice, std::nullopt), 60, 66);
  EXPECT_EQ(ids({unexplained, crowd, setting, leak}),
            "mem.leak_oom_risk nccl.debug_env_left cpu.oversubscribed anomaly.unexplained ")
      << "of two states the one that is certain, and last the change that nobody can explain";
  EXPECT_EQ(ids({lasting(leak, 2, 80), crowd}), "mem.leak_oom_risk cpu.oversubscribed ");
  EXPECT_EQ(ids({lasting(leak, 2, 100), crowd}), "cpu.oversubscribed mem.leak_oom_risk ") << "as long as the job";
  Finding dear = crowd;
  dear.impact.seconds = 1;
  EXPECT_EQ(ids({leak, dear}), "cpu.oversubscribed mem.leak_oom_risk ") << "a cost decides";
  dear = crowd;
  dear.severity = Severity::warning;
  EXPECT_EQ(ids({leak, dear}), "cpu.oversubscribed mem.leak_oom_risk ") << "severity decides";
}

TEST(Verdict, IsANoticeWhereverTheNoticeStands) {
  Finding changed = finding_of("history.drift", Severity::notice, std::nullopt);
  changed.kind = FindingKind::history;
  Report report = report_of({"vm"});
  report.findings = merge_findings({finding_of("anomaly.unexplained", Severity::info, std::nullopt), changed});
  judge(report, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::notice);
  EXPECT_EQ(report.verdict.primary, "history.drift");
}

TEST(Verdict, MakesNoWarningOfAForecastThatDidNotComeTrue) {
  Report report = report_of({"vm"});
  report.findings = {finding_of("mem.leak_oom_risk", Severity::warning, std::nullopt)};
  judge(report, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::finding) << "nobody knows how the job ended";
  report.job.exit_code = 137;
  judge(report, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::finding);
  report.job.exit_code = 0;
  judge(report, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::notice);
  EXPECT_EQ(report.findings[0].severity, Severity::notice);
}

TEST(Verdict, PutsALossBeforeANotice) {
  Report report = report_of({"vm"});
  report.findings = {finding_of("node.straggler", Severity::notice, 5.43)};
  report.findings[0].impact.percent = 11.5;
  report.findings[0].sentence = "For 12.3 s n02 waited for n01.";
  judge(report, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::notice);
  EXPECT_EQ(report.verdict.sentence,
            "For 12.3 s n02 waited for n01. The job may have lost about 5.43 s (11.5 % of the run).");
  report.findings[0].impact.at_most = true;
  judge(report, {});
  EXPECT_EQ(report.verdict.sentence,
            "For 12.3 s n02 waited for n01. The job may have lost at most 5.43 s (11.5 % of the run).");
  report.findings[0].impact = {.how = "none seen: the node computed as before"};
  judge(report, {});
  EXPECT_TRUE(report.verdict.sentence.ends_with(" No loss of time was seen.")) << report.verdict.sentence;
  report.findings[0].impact = {.how = "not known: its traffic was not measured"};
  judge(report, {});
  EXPECT_EQ(report.verdict.sentence, "For 12.3 s n02 waited for n01. The cost is not known.");
}

TEST(Verdict, ShowsNothingBelowHealthyButOneLine) {
  Report report = report_of({"vm"});
  report.findings = {finding_of("anomaly.unexplained", Severity::info, std::nullopt)};
  judge(report, {});
  EXPECT_EQ(report.verdict.status, VerdictStatus::healthy);
  EXPECT_TRUE(shown_findings(report).empty());
  EXPECT_EQ(left_out_line(report), "1 observation without visible cost");
  EXPECT_FALSE(shows_intervals(report));
  report.findings.push_back(finding_of("nccl.single_qp", Severity::info, std::nullopt));
  EXPECT_EQ(left_out_line(report), "2 observations without visible cost");
  report.findings.insert(report.findings.begin(), finding_of("net.tcp_retrans_fault", Severity::notice, std::nullopt));
  judge(report, {});
  ASSERT_EQ(shown_findings(report).size(), 1U);
  EXPECT_EQ(shown_findings(report)[0]->id, "net.tcp_retrans_fault");
  EXPECT_TRUE(shows_intervals(report));
}

}  // namespace
}  // namespace reveal::tests::verdict_test
