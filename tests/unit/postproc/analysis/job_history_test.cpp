#include "postproc/analysis/job_history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "hdf5schema/basics/file_text.h"
#include "postproc/analysis/job_report.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/history/run_index.h"
#include "synthetic_node.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::job_history_test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kHour = 3'600'000'000'000;

class JobHistory : public testing::Test {
 protected:
  JobHistory() {
    options_.enabled = true;
    options_.state.directory = work_ / "state";
  }

  /// The report of run `number`, with a job that took `seconds`.
  Report report(int number, double seconds, bool finding = false) {
    NodeTrace trace;
    trace.telemetry = SyntheticNode{}.record(
        seconds, [](double second, SyntheticNode::Demand& demand) { SyntheticNode::training(second, demand); },
        static_cast<unsigned>(number) + 1);
    trace.telemetry.node = trace.header.node = "n01";
    trace.telemetry.begin_utc_ns += number * kHour;
    trace.header.job_id = std::to_string(4711 + number);
    trace.header.run_key = run_key_;
    trace.header.trace_id = trace_id_;
    trace.header.cluster = cluster_;
    trace.header.command = "python3";
    const std::vector<NodeSummary> summaries{analyse(trace, {})};
    Report report = merge_summaries(summaries, {}, {});
    if (finding) report.findings = {Finding{.id = "cpu.outsider", .severity = Severity::warning, .nodes = {"n01"}}};
    const fs::path directory = work_ / "jobs" / ("reveal-" + std::to_string(number));
    fs::create_directories(directory);
    problems_.clear();
    const auto run = compare_with_earlier(directory, summaries, options_, {}, report, problems_);
    if (run) keep_run(*run, options_, report, problems_);
    return report;
  }

  TemporaryDirectory directory_of_test_;
  const fs::path work_ = directory_of_test_.path();
  HistoryOptions options_;
  std::string run_key_ = "0123456789abcdef0123456789abcdef";
  std::string trace_id_;
  std::string cluster_;
  std::vector<InputProblem> problems_;
};

TEST_F(JobHistory, RecordsTheNumbersAndTheEndOfTheJobAndNoObservations) {
  Report done = report(0, 120);
  done.job.array = "4710_3";
  done.job.state = "FAILED";
  done.job.exit_code = 3;
  done.findings = {Finding{.id = "cpu.steal", .severity = Severity::info, .nodes = {"n01"}},
                   Finding{.id = "cpu.outsider", .severity = Severity::warning, .nodes = {"n01"}}};
  const fs::path directory = work_ / "jobs/reveal-0";
  auto run = compare_with_earlier(directory, {}, options_, {}, done, problems_);
  ASSERT_TRUE(run);
  keep_run(*run, options_, done, problems_);
  const RunRecord record = parse_run(read_text_file(directory / "run.json", kLargestRunRecord));
  EXPECT_EQ(record.job, "4711");
  EXPECT_EQ(record.array, "4710_3");
  EXPECT_EQ(record.state, "FAILED");
  EXPECT_EQ(record.exit_code, 3);
  EXPECT_EQ(record.findings, std::vector<std::string>{"cpu.outsider"});
}

TEST_F(JobHistory, KnowsRunsApartThatBeganOnOneTick) {
  std::set<std::string> runs;
  for (const char* id : {"", "0a", "1b", "1b"}) {
    trace_id_ = id;
    static_cast<void>(report(0, 120));
    runs.insert(parse_run(read_text_file(work_ / "jobs/reveal-0/run.json", kLargestRunRecord)).run_id);
  }
  EXPECT_EQ(runs.size(), 3U);
}

TEST_F(JobHistory, GrowsFromNothingToABaseline) {
  EXPECT_EQ(report(0, 120).history.status, HistoryStatus::never_compared);
  EXPECT_TRUE(fs::exists(work_ / "jobs/reveal-0/run.json"));
  EXPECT_EQ(report(1, 121).history.status, HistoryStatus::too_few_runs);
  EXPECT_EQ(report(2, 120).history.runs, 2U);
  const Report fourth = report(3, 121);
  EXPECT_EQ(fourth.history.status, HistoryStatus::compared);
  EXPECT_EQ(fourth.history.accepted, 3U) << fourth.history.sentence;
  for (const Finding& reported : fourth.findings) EXPECT_NE(reported.kind, FindingKind::history);
  const Report slow = report(4, 170);
  EXPECT_TRUE(std::any_of(slow.findings.begin(), slow.findings.end(), [](const Finding& reported) {
    return reported.id == "history.slower";
  })) << slow.history.sentence;
  EXPECT_FALSE(slow.history.enters_baseline) << "what is slow today must not be normal tomorrow";
  EXPECT_EQ(report(5, 170).history.accepted, 4U);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(JobHistory, DoesNotTakeAPartOfARunForAFasterOne) {
  for (int run = 0; run < 4; ++run) static_cast<void>(report(run, 120 + run % 2));
  Report part = report(4, 60);
  EXPECT_NE(part.history.sentence.find("shorter than usual"), std::string::npos) << part.history.sentence;
  const auto compared_again = [&] {
    static_cast<void>(compare_with_earlier(work_ / "jobs/reveal-4", {}, options_, {}, part, problems_));
    return part.history.sentence;
  };
  part.job.exit_code = 3;
  const std::string failed = compared_again();
  EXPECT_EQ(failed.find("shorter"), std::string::npos) << failed;
  EXPECT_TRUE(failed.ends_with("; its run time is not compared, because it failed")) << failed;
  EXPECT_TRUE(std::none_of(part.history.changes.begin(), part.history.changes.end(),
                           [](const HistoryChange& one) { return one.what == HistoryChange::What::run_time; }));
  part.job.exit_code.reset();
  part.partial = true;
  const std::string cut = compared_again();
  EXPECT_TRUE(cut.ends_with("; its run time is not compared, because its recording is incomplete")) << cut;
  part.job.ran_seconds = 60;
  EXPECT_NE(compared_again().find("shorter than usual"), std::string::npos) << "the command itself took 60 s";
  part.partial = false;
  part.job.restart = 1;
  const std::string rest = compared_again();
  EXPECT_TRUE(rest.ends_with(
      "; its run time is not compared, because it was queued again and may have gone on from a checkpoint"))
      << rest;
}

TEST_F(JobHistory, TellsNoOtherWorkOfAPartOfARun) {
  for (int run = 0; run < 5; ++run) static_cast<void>(report(run, 120));
  Report last = report(5, 120);
  NodeSummary other;
  other.node = "n01";
  const std::string earlier = read_text_file(work_ / "jobs/reveal-4/run.json", kLargestRunRecord);
  for (const RunChannel& channel : parse_run(earlier).channels) {
    ProfileChannel& changed = other.profile.channels.emplace_back();
    changed.name = channel.name;
    changed.unit = channel.unit;
    changed.subsystem = channel.subsystem;
    changed.kind = channel.kind;
    changed.mean = 3 * channel.value;
  }
  const auto tells_other_work = [&] {
    last.findings.clear();
    static_cast<void>(compare_with_earlier(work_ / "jobs/reveal-5", {other}, options_, {}, last, problems_));
    return std::any_of(last.findings.begin(), last.findings.end(),
                       [](const Finding& one) { return one.id == "history.changed"; });
  };
  EXPECT_TRUE(tells_other_work()) << last.history.sentence;
  last.job.exit_code = 3;
  EXPECT_FALSE(tells_other_work()) << "that it did not take longer is not known";
}

TEST_F(JobHistory, LearnsNothingFromARunThatWasQueuedAgain) {
  Report again = report(0, 120);
  EXPECT_TRUE(again.history.enters_baseline);
  again.job.restart = 1;
  auto run = compare_with_earlier(work_ / "jobs/reveal-0", {}, options_, {}, again, problems_);
  ASSERT_TRUE(run);
  keep_run(*run, options_, again, problems_);
  EXPECT_FALSE(again.history.enters_baseline);
  EXPECT_EQ(again.history.why_not, "it was queued again and may have gone on from a checkpoint");
}

TEST_F(JobHistory, RemembersFindingsAndNoObservations) {
  const fs::path directory = work_ / "jobs/reveal-0";
  fs::create_directories(directory);
  Report one;
  one.findings = {Finding{.id = "cpu.outsider", .severity = Severity::warning},
                  Finding{.id = "mem.swap_activity", .severity = Severity::notice},
                  Finding{.id = "anomaly.unexplained", .severity = Severity::info}};
  keep_run({.place = directory, .record = {.run_id = "1", .key = run_key_}, .without_index = ""}, options_, one,
           problems_);
  EXPECT_EQ(parse_run(read_text_file(directory / "run.json", 100'000)).findings,
            (std::vector<std::string>{"cpu.outsider", "mem.swap_activity"}));
}

TEST_F(JobHistory, NeverComparesTwoScriptsOfOneInterpreter) {
  for (int run = 0; run < 4; ++run) static_cast<void>(report(run, 36));
  run_key_ = "fedcba9876543210fedcba9876543210";
  const Report other = report(5, 75);
  EXPECT_EQ(other.history.status, HistoryStatus::never_compared);
  EXPECT_EQ(other.history.reason, "no earlier run of this command and shape is known");
  for (const Finding& reported : other.findings) EXPECT_NE(reported.kind, FindingKind::history);
}

TEST_F(JobHistory, NeverComparesRunsOfTwoClusters) {
  cluster_ = "hydra";
  for (int run = 0; run < 4; ++run) static_cast<void>(report(run, 36));
  cluster_ = "della";
  EXPECT_EQ(report(5, 75).history.status, HistoryStatus::never_compared);
}

TEST_F(JobHistory, NeverComparesRunsOfWhichOnlyTheInterpreterIsKnown) {
  run_key_.clear();
  static_cast<void>(report(0, 36));
  const Report second = report(1, 36);
  EXPECT_EQ(second.history.status, HistoryStatus::never_compared);
  EXPECT_EQ(second.history.reason, "it is not known which program python3 ran");
  EXPECT_FALSE(fs::exists(work_ / "jobs/reveal-0/run.json"));
  EXPECT_FALSE(second.history.enters_baseline);
}

TEST_F(JobHistory, LeavesOtherPeoplesRunsAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  const fs::path theirs = work_ / "jobs/reveal-1";
  static_cast<void>(report(0, 36));
  fs::create_directories(theirs);
  fs::copy(work_ / "jobs/reveal-0/run.json", work_ / "jobs/run.json");
  ASSERT_EQ(::chown(theirs.c_str(), 12345, 12345), 0);
  const Report foreign = report(1, 36);
  EXPECT_EQ(foreign.history.reason, "the job's directory belongs to another user");
  EXPECT_FALSE(fs::exists(theirs / "run.json"));
  // A record that another user put beside one's own runs.
  fs::rename(work_ / "jobs/run.json", theirs / "run.json");
  ASSERT_EQ(::chown((theirs / "run.json").c_str(), 12345, 12345), 0);
  fs::remove_all(work_ / "state");
  fs::remove(work_ / "jobs/reveal-0/run.json");
  EXPECT_EQ(report(2, 36).history.runs, 0U);
}

TEST_F(JobHistory, LearnsNothingFromARunWithAFinding) {
  const Report ill = report(0, 120, true);
  EXPECT_FALSE(ill.history.enters_baseline);
  EXPECT_EQ(ill.history.why_not, "it had a finding: cpu.outsider");
  EXPECT_EQ(report(1, 120).history.accepted, 0U);
}

TEST_F(JobHistory, NeedsNoIndex) {
  std::ofstream(work_ / "state") << "a file where the directory should be";
  static_cast<void>(report(0, 120));
  const Report second = report(1, 120);
  EXPECT_EQ(second.history.runs, 1U) << "the runs beside this one are found without it";
  EXPECT_NE(second.history.sentence.find("only the runs in the same directory are known"), std::string::npos);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(JobHistory, TriesAnIndexAgainThatWasBusy) {
  const fs::path directory = work_ / "jobs/reveal-0";
  fs::create_directories(directory);
  Report one;
  keep_run({.place = directory, .record = {.run_id = "1", .key = "key"}, .without_index = "it was busy"}, options_, one,
           problems_);
  EXPECT_EQ(RunIndex(work_ / "state").runs("key").size(), 1U);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(JobHistory, FindsTheRunsAgainWhenTheIndexIsGone) {
  static_cast<void>(report(0, 120));
  static_cast<void>(report(1, 120));
  std::ofstream(work_ / "state/history.sqlite", std::ios::trunc)
      << "no database at all, whatever its name may say of it";
  EXPECT_EQ(report(2, 120).history.runs, 2U);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_NE(problems_[0].text.find("damaged"), std::string::npos);
}

TEST_F(JobHistory, SaysWhyItNeverCompared) {
  options_ = {.enabled = false, .why_not = "--no-history was given"};
  const Report never = report(0, 120);
  EXPECT_EQ(never.history.reason, "--no-history was given");
  EXPECT_FALSE(fs::exists(work_ / "jobs/reveal-0/run.json"));
  EXPECT_NE(render_text(never, {.part = TextPart::everything}).find("never compared: --no-history was given"),
            std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::job_history_test
