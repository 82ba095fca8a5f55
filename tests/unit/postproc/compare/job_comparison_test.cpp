#include "postproc/compare/job_comparison.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/commands/comparison_status.h"
#include "postproc/compare/comparison_page.h"

namespace reveal::tests::job_comparison_test {
namespace {

constexpr std::int64_t kFirstBegin = 1'763'634'725'000'000'000;

/// A healthy run of 100 s, some time after the one before it.
ComparedRun healthy_run(double seconds) {
  static std::int64_t begin = kFirstBegin;
  begin += 3600 * kSecond;
  ComparedRun run;
  run.directory = "reveal-" + std::to_string((begin - kFirstBegin) / kSecond);
  run.report.tool_version = "0.1.0";
  ReportJob& job = run.report.job;
  job.command = "solver";
  job.nodes = {"n01"};
  job.begin_utc_ns = begin;
  job.end_utc_ns = begin + 100 * kSecond;
  job.ran_seconds = seconds;
  job.exit_code = 0;
  return run;
}

Finding outsider_in(const ComparedRun& run, double from_seconds, double to_seconds) {
  Finding finding;
  finding.id = "cpu.outsider";
  finding.fingerprint = "outsider on n01";
  finding.title = "A process outside the job ran on its cpus";
  finding.severity = Severity::warning;
  finding.kind = FindingKind::anomaly;
  const std::int64_t begin = run.report.job.begin_utc_ns;
  finding.intervals = {
      {begin + static_cast<std::int64_t>(from_seconds * 1e9), begin + static_cast<std::int64_t>(to_seconds * 1e9)}};
  return finding;
}

ComparedRun disturbed_run(double seconds, double from_seconds = 40, double to_seconds = 55) {
  ComparedRun run = healthy_run(seconds);
  run.report.findings.push_back(outsider_in(run, from_seconds, to_seconds));
  run.report.verdict = {VerdictStatus::finding, "cpu.outsider", "", false};
  ReportEpisode episode;
  episode.tier = Tier::strong;
  episode.span = run.report.findings.front().intervals.front();
  run.report.episodes.push_back(episode);
  return run;
}

TEST(JobComparison, OfOneRunASideHasNoInterval) {
  const JobComparison comparison = compare_jobs({healthy_run(80)}, {healthy_run(94)});
  EXPECT_EQ(comparison.change, TimeChange::not_known);
  EXPECT_FALSE(comparison.run_time.difference);
  EXPECT_EQ(comparison.sentence,
            "The run time was 94.00 s instead of 80.00 s: 14.00 s longer (17.5 %); the spread between runs is not "
            "known: this "
            "needs two or more runs on each side.");
}

TEST(JobComparison, FindsTheSlowerSide) {
  const JobComparison comparison =
      compare_jobs({healthy_run(80.1), healthy_run(79.4), healthy_run(81.2), healthy_run(80.6)},
                   {healthy_run(94.2), healthy_run(92.8), healthy_run(97.1)});
  EXPECT_EQ(comparison.change, TimeChange::slower);
  EXPECT_EQ(comparison.sentence,
            "The run time was 94.70 s instead of 80.32 s: 14.38 s longer (17.9 %), 95 % confidence interval of "
            "the difference 9.45 s to 19.30 s.");
  EXPECT_EQ(compare_jobs({healthy_run(94.2), healthy_run(92.8)}, {healthy_run(80.1), healthy_run(79.4)}).change,
            TimeChange::faster);
}

TEST(JobComparison, ShowsNoDifferenceWithinTheSpread) {
  const JobComparison comparison =
      compare_jobs({healthy_run(80), healthy_run(84)}, {healthy_run(83), healthy_run(81), healthy_run(85)});
  EXPECT_EQ(comparison.change, TimeChange::same);
  EXPECT_TRUE(
      comparison.sentence.starts_with("The runs show no difference in the run time: 83.00 s instead of 82.00 s"))
      << comparison.sentence;
}

TEST(JobComparison, NamesTheSpreadThatItBorrows) {
  const ComparedRun before = healthy_run(80);
  const ComparedRun after = healthy_run(94);
  const JobComparison comparison = compare_jobs({before}, {after}, {80, 81, 79.5, 80.5});
  EXPECT_EQ(comparison.change, TimeChange::slower);
  EXPECT_EQ(
      comparison.run_time.method,
      "Student's t; assumption: both sides have the spread of 4 earlier runs of this command in reveal's history");
  EXPECT_EQ(compare_jobs({before}, {after}, {80, 81}).change, TimeChange::not_known) << "two runs show no spread";
  const JobComparison larger = compare_jobs({healthy_run(80), healthy_run(81), healthy_run(79)}, {after});
  EXPECT_EQ(larger.change, TimeChange::slower);
  EXPECT_EQ(larger.run_time.method,
            "Student's t; assumption: both sides have the spread of the runs of the larger side");
}

TEST(JobComparison, LeavesTheTimeOfFailedRunsOut) {
  ComparedRun failed = healthy_run(3);
  failed.report.job.exit_code = 1;
  const JobComparison comparison =
      compare_jobs({healthy_run(80), healthy_run(80.5)}, {healthy_run(80.2), healthy_run(80.4), failed});
  EXPECT_EQ(comparison.change, TimeChange::same);
  EXPECT_EQ(comparison.run_time.after, (std::vector{80.2, 80.4}));
  EXPECT_EQ(comparison.notes, std::vector{failed.directory + " failed: its time is not compared"});
  EXPECT_EQ(compare_jobs({healthy_run(80)}, {failed}).sentence,
            "The times cannot be compared: one side has no successful run with a known time.");
}

TEST(JobComparison, IsNoSuccessWhereARunAfterTheChangeFailed) {
  ComparedRun failed = healthy_run(3);
  failed.report.job.exit_code = 1;
  EXPECT_EQ(comparison_status(TimeChange::faster, {healthy_run(80)}), kNotWorse);
  EXPECT_EQ(comparison_status(TimeChange::faster, {healthy_run(80), failed}), kNotKnown);
  EXPECT_EQ(comparison_status(TimeChange::same, {healthy_run(80), failed}), kNotKnown);
  EXPECT_EQ(comparison_status(TimeChange::slower, {healthy_run(80), failed}), kRegression);
}

TEST(JobComparison, DoesNotMixToldAndRecordedTimes) {
  ComparedRun untold = healthy_run(0);
  untold.report.job.ran_seconds.reset();
  const JobComparison comparison = compare_jobs({healthy_run(103)}, {untold});
  EXPECT_EQ(comparison.run_time.name, "recorded time");
  EXPECT_EQ(comparison.run_time.before, std::vector{100.0});
  EXPECT_EQ(comparison.run_time.after, std::vector{100.0});
}

TEST(JobComparison, LeavesTheTimeOfACutRecordingOut) {
  ComparedRun cut = healthy_run(0);
  cut.report.partial = true;
  cut.report.job.ran_seconds.reset();
  cut.report.job.exit_code.reset();
  cut.report.job.end_utc_ns = cut.report.job.begin_utc_ns + 20 * kSecond;
  const JobComparison comparison = compare_jobs({healthy_run(80), healthy_run(81)}, {cut});
  EXPECT_EQ(comparison.change, TimeChange::not_known) << comparison.sentence;
  EXPECT_TRUE(comparison.run_time.after.empty());
  EXPECT_EQ(comparison.notes, std::vector{cut.directory + " is incomplete: part of its data is missing, so its "
                                                          "recorded time is not compared"});
  cut.report.job.ran_seconds = 94;
  EXPECT_EQ(compare_jobs({healthy_run(80)}, {cut}).run_time.after, std::vector{94.0});
}

TEST(JobComparison, NamesARunWithoutATime) {
  ComparedRun untimed = healthy_run(0);
  untimed.report.job.ran_seconds.reset();
  untimed.report.job.end_utc_ns = 0;
  const JobComparison comparison = compare_jobs({healthy_run(80)}, {untimed, healthy_run(81)});
  EXPECT_EQ(comparison.notes, std::vector{"the run time of " + untimed.directory + " is not known"});
}

TEST(JobComparison, TellsWhatAppearedAndForHowLong) {
  const JobComparison comparison =
      compare_jobs({healthy_run(80), healthy_run(81)}, {disturbed_run(94, 40, 55), disturbed_run(95, 30, 47)});
  ASSERT_EQ(comparison.causes.size(), 1U);
  const ComparedCause& cause = comparison.causes.front();
  EXPECT_EQ(cause.change, CauseChange::appeared);
  EXPECT_EQ(cause.before, (CauseOnSide{2, 2, 0, ""}));
  EXPECT_EQ(cause.after, (CauseOnSide{2, 2, 2, ""}));
  EXPECT_EQ(cause.share.before, (std::vector{0.0, 0.0}));
  ASSERT_EQ(cause.share.after.size(), 2U);
  EXPECT_NEAR(cause.share.after[0], 15, 1e-9);
  EXPECT_NEAR(cause.share.after[1], 17, 1e-9);
  // scipy.stats.ttest_ind([15, 17], [0, 0], equal_var=False): 16 +- 12.706 * 1
  ASSERT_TRUE(cause.share.difference);
  EXPECT_NEAR(cause.share.difference->low, 16 - 12.706204736, 1e-6);
  EXPECT_NEAR(arithmetic_mean(comparison.anomalous.after), 16, 1e-9);
}

TEST(JobComparison, TakesEqualValuesForNoCertainty) {
  const JobComparison healthy = compare_jobs({healthy_run(80), healthy_run(81)}, {healthy_run(80), healthy_run(81)});
  EXPECT_EQ(healthy.anomalous.before, (std::vector{0.0, 0.0}));
  EXPECT_FALSE(healthy.anomalous.difference);
  EXPECT_EQ(healthy.anomalous.reason, "the runs of each side have equal values, which show no spread");
  const JobComparison disturbed =
      compare_jobs({healthy_run(80), healthy_run(81)}, {disturbed_run(94), disturbed_run(95)});
  EXPECT_EQ(disturbed.anomalous.after.size(), 2U);
  EXPECT_FALSE(disturbed.anomalous.difference);
  EXPECT_FALSE(disturbed.causes.at(0).share.difference);
}

TEST(JobComparison, CountsOverlappingIntervalsOnceAndOnlyWithinTheRun) {
  ComparedRun run = disturbed_run(94, 90, 130);
  run.report.findings.front().intervals.push_back(outsider_in(run, 80, 95).intervals.front());
  run.report.findings.front().intervals.push_back(outsider_in(run, -50, 1).intervals.front());
  const JobComparison comparison = compare_jobs({healthy_run(80)}, {run});
  ASSERT_EQ(comparison.causes.front().share.after.size(), 1U);
  EXPECT_NEAR(comparison.causes.front().share.after.front(), 21, 1e-9);
}

TEST(JobComparison, SurvivesImpossibleTimes) {
  ComparedRun run = disturbed_run(1e300);
  run.report.job.begin_utc_ns = std::numeric_limits<std::int64_t>::min();
  run.report.job.end_utc_ns = std::numeric_limits<std::int64_t>::max();
  run.report.findings.front().intervals = {
      {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}};
  ComparedRun nan = healthy_run(std::numeric_limits<double>::quiet_NaN());
  nan.report.job.end_utc_ns = 0;
  const JobComparison comparison = compare_jobs({run}, {nan});
  EXPECT_EQ(comparison.change, TimeChange::not_known);
  EXPECT_FALSE(comparison_as_json(comparison).empty());
}

TEST(JobComparison, DoesNotTakeUncheckedForGone) {
  ComparedRun unchecked = healthy_run(80);
  unchecked.report.not_checked = {{"cpu.outsider", "job.outsider_cpu was not measured"}};
  const JobComparison comparison = compare_jobs({disturbed_run(94)}, {unchecked});
  const ComparedCause& cause = comparison.causes.front();
  EXPECT_EQ(cause.change, CauseChange::not_known);
  EXPECT_EQ(cause.after, (CauseOnSide{1, 0, 0, "job.outsider_cpu was not measured"}));
  EXPECT_TRUE(cause.share.after.empty()) << "not measured is not 0";
  EXPECT_EQ(compare_jobs({disturbed_run(94)}, {unchecked, healthy_run(80)}).causes.front().change, CauseChange::went);
}

TEST(JobComparison, DoesNotTakeMutedForGone) {
  ComparedRun muted = healthy_run(93);
  muted.report.muted = {{"cpu.outsider", "", Severity::warning, {"n01"}, "cpu.outsider in reveal.conf:3"}};
  const JobComparison comparison = compare_jobs({disturbed_run(94)}, {muted});
  ASSERT_EQ(comparison.causes.size(), 1U);
  EXPECT_EQ(comparison.causes[0].change, CauseChange::stayed);
  EXPECT_EQ(comparison.causes[0].after, (CauseOnSide{1, 1, 1, ""}));
  EXPECT_TRUE(comparison.causes[0].share.after.empty()) << "its intervals are not kept";
  EXPECT_EQ(comparison.notes,
            std::vector{muted.directory + " has a muted finding, which counts as found: cpu.outsider"});
}

TEST(JobComparison, DoesNotTakeAFindingWithoutAnIntervalForNoTime) {
  ComparedRun run = disturbed_run(94);
  run.report.findings.front().intervals = {TimeSpan{}};
  const ComparedCause cause = compare_jobs({healthy_run(80)}, {run}).causes.at(0);
  EXPECT_EQ(cause.change, CauseChange::appeared);
  EXPECT_TRUE(cause.share.after.empty());
  EXPECT_EQ(cause.share.reason, "not known in any run of one side");
}

TEST(JobComparison, DoesNotTakeTooShortForHealthy) {
  ComparedRun brief = healthy_run(4);
  brief.report.verdict.status = VerdictStatus::insufficient_data;
  const JobComparison comparison = compare_jobs({disturbed_run(94)}, {brief});
  EXPECT_EQ(comparison.causes.front().change, CauseChange::not_known);
  EXPECT_FALSE(comparison.anomalous.known());
  EXPECT_EQ(comparison.notes, std::vector{brief.directory + " could not be judged: its causes are not known"});
}

TEST(JobComparison, NamesAllRunsThatCouldNotBeJudgedInOneNoteWithTheShortestReason) {
  std::vector<ComparedRun> brief(7, healthy_run(4));
  for (std::size_t i = 0; i < brief.size(); ++i) {
    brief[i].directory = "r" + std::to_string(i);
    brief[i].report.job.begin_utc_ns += static_cast<std::int64_t>(i) * kSecond;
    brief[i].report.verdict = {VerdictStatus::insufficient_data, "", "2 windows of 3 s, at least 30 are needed.",
                               false};
  }
  brief[0].report.verdict.sentence.clear();
  brief[1].report.verdict.sentence = "The job failed. 2 windows of 3 s, at least 30 are needed.";
  EXPECT_EQ(compare_jobs({brief[0], brief[1], brief[2]}, {brief[3], brief[4], brief[5], brief[6]}).notes,
            std::vector<std::string>{"7 runs could not be judged (2 windows of 3 s, at least 30 are needed): their "
                                     "causes are not known: r0, r1, r2, r3 and 3 more"});
  EXPECT_EQ(
      compare_jobs({brief[2]}, {healthy_run(80)}).notes,
      std::vector<std::string>{"r2 could not be judged (2 windows of 3 s, at least 30 are needed): its causes are "
                               "not known"});
}

TEST(JobComparison, DoesNotCountIntervalsThatWereLeftOut) {
  ComparedRun run = disturbed_run(94);
  run.report.omitted["episodes"] = 12;
  EXPECT_FALSE(compare_jobs({healthy_run(80)}, {run}).anomalous.known());
}

TEST(JobComparison, SaysWhetherACauseStayedInItsPlace) {
  ComparedRun elsewhere = disturbed_run(94);
  elsewhere.report.findings.front().fingerprint = "outsider on n02";
  const JobComparison comparison = compare_jobs({disturbed_run(94)}, {elsewhere});
  EXPECT_EQ(comparison.causes.front().change, CauseChange::stayed);
  EXPECT_FALSE(comparison.causes.front().same_place);
  EXPECT_TRUE(compare_jobs({disturbed_run(94)}, {disturbed_run(95)}).causes.front().same_place);
}

TEST(JobComparison, LeavesFindingsAboutEarlierRunsOut) {
  ComparedRun run = healthy_run(94);
  Finding slower;
  slower.id = "history.slower";
  slower.kind = FindingKind::history;
  run.report.findings = {slower};
  EXPECT_TRUE(compare_jobs({healthy_run(80)}, {run}).causes.empty());
}

TEST(JobComparison, NotesWhatElseIsNotTheSame) {
  ComparedRun other = healthy_run(80);
  other.report.job.command = "train.py";
  other.report.job.nodes = {"n02", "n03"};
  other.report.job.cluster = "hydra";
  ComparedRun run = healthy_run(80);
  run.report.job.cluster = "della";
  const JobComparison comparison = compare_jobs({run}, {other});
  EXPECT_EQ(comparison.notes, (std::vector<std::string>{"the commands differ: solver before, train.py after",
                                                        "the clusters differ: della before, hydra after",
                                                        "the nodes differ: n01 before, n[02-03] after"}));
}

TEST(JobComparison, RefusesOneRunUnderTwoNames) {
  const ComparedRun run = healthy_run(80);
  ComparedRun copy = run;
  copy.directory = "copy";
  EXPECT_THROW(static_cast<void>(compare_jobs({run}, {copy})), Error);
  EXPECT_THROW(static_cast<void>(compare_jobs({run, copy}, {healthy_run(81)})), Error);
}

TEST(JobComparison, KnowsRunsApartThatBeganAtOnce) {
  ComparedRun run = healthy_run(80);
  ComparedRun other = run;
  run.report.totals = {JobTotals{}};
  other.report.totals = {JobTotals{}};
  run.report.totals.front().cpu_seconds = 3.25;
  other.report.totals.front().cpu_seconds = 3.26;
  EXPECT_EQ(compare_jobs({run}, {other}).change, TimeChange::not_known);
}

TEST(JobComparison, KnowsRunsApartByTheIdsOfTheirTraces) {
  ComparedRun run = healthy_run(80);
  ComparedRun other = run;
  run.report.job.trace_ids = {"0a", "1b"};
  other.report.job.trace_ids = {"2c", "3d"};
  EXPECT_EQ(compare_jobs({run}, {other}).change, TimeChange::not_known) << "equal in all amounts";
}

TEST(JobComparison, KnowsACopyByTheIdOfOneTrace) {
  ComparedRun run = healthy_run(80);
  ComparedRun later = run;  // made again, by another version and with a node that was late
  run.report.job.trace_ids = {"1b"};
  later.report.job.trace_ids = {"0a", "1b"};
  later.report.job.begin_utc_ns -= kSecond;
  later.report.job.nodes = {"n01", "n02"};
  EXPECT_THROW(static_cast<void>(compare_jobs({run}, {later})), Error);
}

TEST(JobComparison, ComparesAmountsWhereOneReportHasNoIds) {
  ComparedRun run = healthy_run(80);
  ComparedRun copy = run;
  run.report.job.trace_ids = {"1b"};
  EXPECT_THROW(static_cast<void>(compare_jobs({run}, {copy})), Error);
  copy.report.job.ran_seconds = 80.01;
  EXPECT_EQ(compare_jobs({run}, {copy}).change, TimeChange::not_known);
}

TEST(JobComparison, HasAStepTimeWhereTheJobTellsItsSteps) {
  ComparedRun before = healthy_run(80);
  ComparedRun after = healthy_run(94);
  before.report.totals = {JobTotals{.notes = {{"steps", "the job reports no steps"}}}};
  after.report.totals = {JobTotals{}};
  after.report.totals.front().steps = 47;
  EXPECT_EQ(compare_jobs({before}, {after}).step_time.reason, "the job reports no steps");
  before.report.totals.front().steps = 40;
  const ComparedNumber steps = compare_jobs({before}, {after}).step_time;
  EXPECT_EQ(steps.before, std::vector{2.0});
  EXPECT_EQ(steps.after, std::vector{2.0});
}

TEST(JobComparison, HasStepTimesOfOneKindOfRunTime) {
  ComparedRun told = healthy_run(80);
  ComparedRun untold = healthy_run(0);
  untold.report.job.ran_seconds.reset();
  for (ComparedRun* run : {&told, &untold}) run->report.totals = {JobTotals{}};
  told.report.totals.front().steps = 40;
  untold.report.totals.front().steps = 50;
  const ComparedNumber steps = compare_jobs({told}, {untold}).step_time;
  EXPECT_EQ(steps.before, std::vector{2.5}) << "both recordings took 100 s";
  EXPECT_EQ(steps.after, std::vector{2.0});
}

TEST(JobComparison, HasNoStepTimeOfACutRecording) {
  ComparedRun cut = healthy_run(80);
  cut.report.partial = true;
  cut.report.totals = {JobTotals{.notes = {{"steps", "backward passes of PyTorch"}}}};
  cut.report.totals.front().steps = 40;
  const ComparedNumber steps = compare_jobs({cut}, {healthy_run(94)}).step_time;
  EXPECT_TRUE(steps.before.empty()) << "the command made more steps in its 80 s";
  EXPECT_EQ(steps.reason, "one side has no run that succeeded and was recorded completely");
}

/// A run with counted processors and memory.
ComparedRun counted_run(double seconds, double instructions_per_cycle, double bytes_per_second) {
  ComparedRun run = healthy_run(seconds);
  JobTotals totals;
  totals.seconds = 100;
  totals.cycles = 4e11;
  totals.instructions = instructions_per_cycle * 4e11;
  totals.stalled_cycles = 1e11;
  totals.memory_traffic = bytes_per_second * 100;
  totals.notes = {{"cache_misses", "the processor does not count it"},
                  {"remote_reads", "the processor does not count it"}};
  run.report.totals = {totals};
  return run;
}

TEST(JobComparison, HasWhatTheProcessorsCountedOnBothSides) {
  const JobComparison comparison = compare_jobs({counted_run(80, 1.5, 2e9), counted_run(81, 1.4, 2e9)},
                                                {counted_run(94, 0.9, 3e9), counted_run(95, 0.8, 3e9)});
  ASSERT_EQ(comparison.hardware.size(), 4U);
  const ComparedNumber& per_cycle = comparison.hardware[0];
  EXPECT_EQ(per_cycle.name, "instructions per cycle");
  ASSERT_EQ(per_cycle.before.size(), 2U);
  EXPECT_NEAR(per_cycle.before[0], 1.5, 1e-9);
  EXPECT_NEAR(per_cycle.after[1], 0.8, 1e-9);
  // scipy.stats.ttest_ind([0.9, 0.8], [1.5, 1.4], equal_var=False): -0.6 +- 4.3026527 * 0.070710678
  ASSERT_TRUE(per_cycle.difference);
  EXPECT_NEAR(per_cycle.difference->low, -0.6 - 0.304243, 1e-5);
  EXPECT_EQ(comparison.hardware[1].before, (std::vector{25.0, 25.0}));
  EXPECT_FALSE(comparison.hardware[2].known());
  EXPECT_EQ(comparison.hardware[2].reason, "the processor does not count it");
  EXPECT_NEAR(comparison.hardware[3].after[0], 3e9, 1);
  const std::string text = comparison_as_text(comparison, {});
  EXPECT_NE(text.find("  hardware     instructions per cycle: 1.45 (1.5, 1.4) before, 0.85 (0.9, 0.8)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("memory bandwidth: 1.86 GiB/s (1.86, 1.86) before, 2.79 GiB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("remote memory reads: not known: the processor does not count it"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(comparison_as_json(comparison));
  EXPECT_EQ(json.at("hardware").at(0).at("name"), "instructions per cycle");
  EXPECT_FALSE(json.at("hardware").at(0).at("interval").is_null());
  EXPECT_TRUE(json.at("hardware").at(2).at("interval").is_null());
}

TEST(JobComparison, TakesNoCounterOfOneSideForAChange) {
  ComparedRun failed = counted_run(3, 0.1, 1e9);
  failed.report.job.exit_code = 1;
  for (const ComparedRun& other : {healthy_run(94), failed}) {
    const JobComparison comparison = compare_jobs({counted_run(80, 1.5, 2e9)}, {other});
    for (const ComparedNumber& one : comparison.hardware) {
      EXPECT_FALSE(one.known()) << one.name;
      EXPECT_FALSE(one.difference) << one.name;
      EXPECT_FALSE(one.reason.empty()) << one.name;
    }
  }
  failed.report.totals.front().notes["instructions"] = "the processors' counters, of the job's tasks";
  EXPECT_EQ(compare_jobs({counted_run(80, 1.5, 2e9)}, {failed}).hardware.at(0).reason,
            "one side has no run that succeeded and was recorded completely");
}

TEST(ComparisonPage, FoldsAndSaysEverything) {
  const JobComparison comparison =
      compare_jobs({healthy_run(80), healthy_run(81)}, {disturbed_run(94, 40, 55), disturbed_run(95, 30, 47)});
  TextStyle style;
  style.width = 80;
  EXPECT_EQ(comparison_as_text(comparison, style),
            "SLOWER  The run time was 94.50 s instead of 80.50 s: 14.00 s longer (17.4 %),\n"
            "        95 % confidence interval of the difference 10.96 s to 17.04 s.\n"
            "\n"
            "  run time     80.50 s (80.00, 81.00) before, 94.50 s (94.00, 95.00) after;\n"
            "               difference +14.00 s (95 % interval 10.96 to 17.04)\n"
            "  pass time    not known: not measured\n"
            "  hardware     instructions per cycle, stalled cycles, remote memory reads,\n"
            "               memory bandwidth: not known: not measured\n"
            "  anomalous    0 % (0, 0) before, 16 % (15, 17) after; difference +16 percentage\n"
            "               points (95 % interval 3.29 to 28.7)\n"
            "  appeared     cpu.outsider: A process outside the job ran on its cpus; found in\n"
            "               0 of 2 runs before, 2 of 2 runs after; share of the time 0 % (0,\n"
            "               0) before, 16 % (15, 17) after; difference +16 percentage points\n"
            "               (95 % interval 3.29 to 28.7)\n"
            "  method       Welch's t of the runs of both sides\n");
}

TEST(ComparisonPage, IsInertOnATerminal) {
  ComparedRun hostile = disturbed_run(94);
  hostile.directory = "a\033]0;title\a";
  hostile.report.findings.front().title = "\033[2J\nVERDICT healthy";
  hostile.report.job.command = "\033[31mred";
  const std::string text = comparison_as_text(compare_jobs({healthy_run(80)}, {hostile}), {});
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(text.find("\nVERDICT"), std::string::npos);
}

TEST(ComparisonPage, IsJsonWithReasonsForWhatIsUnknown) {
  const auto json = nlohmann::json::parse(comparison_as_json(compare_jobs({healthy_run(80)}, {disturbed_run(94)})));
  EXPECT_EQ(json.at("schema"), "reveal.compare/1");
  EXPECT_EQ(json.at("change"), "not known");
  EXPECT_TRUE(json.at("run_time").at("interval").is_null());
  EXPECT_FALSE(json.at("run_time").at("interval_reason").get<std::string>().empty());
  EXPECT_EQ(json.at("causes").at(0).at("change"), "appeared");
  EXPECT_EQ(json.at("causes").at(0).at("share").at("after").at(0), 15);
  const auto known = nlohmann::json::parse(
      comparison_as_json(compare_jobs({healthy_run(80), healthy_run(81)}, {healthy_run(94), healthy_run(95)})));
  EXPECT_NEAR(known.at("run_time").at("interval").at("low").get<double>(), 10.96, 0.01);
}

}  // namespace
}  // namespace reveal::tests::job_comparison_test
