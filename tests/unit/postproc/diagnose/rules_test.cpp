// cpu.outsider on nodes with every cpu second accounted for: one that has an outsider, and others that only look so.
#include <gtest/gtest.h>

#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/diagnose/run_rules.h"
#include "rule_recording.h"
#include "synthetic_node.h"

namespace reveal::tests::rules_test {
namespace {

using Demand = SyntheticNode::Demand;

std::vector<Finding> findings_of(const Telemetry& telemetry, std::string_view rule, const Detection& detection = {},
                                 const Snapshot& facts = {}, const std::vector<Event>& events = {}) {
  const RuleContext::Node node{.telemetry = telemetry,
                               .detection = detection,
                               .begin = facts,
                               .end = facts,
                               .events = events,
                               .command = "train"};
  const RuleSpec* spec = find_rule(rule);
  if (spec == nullptr) return {};
  return spec->check(RuleContext(*spec, node, {}, {}));
}

double seconds_of(const Telemetry& telemetry, std::int64_t utc_ns) {
  return static_cast<double>(utc_ns - telemetry.begin_utc_ns) * 1e-9;
}

void outsider(double begin, double end, int cpu, double share, double second, Demand& demand) {
  if (second >= begin && second < end) demand.outsider[cpu] = share;
}

void expect_span(const Telemetry& telemetry, const Finding& finding, double begin, double end, double within) {
  EXPECT_NEAR(seconds_of(telemetry, finding.intervals.at(0).begin_utc_ns), begin, within);
  EXPECT_NEAR(seconds_of(telemetry, finding.intervals.at(0).end_utc_ns), end, within);
}

TEST(RuleOutsider, FindsAFullCpuForFifteenSeconds) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    outsider(52, 67, 1, 1.0, second, demand);
  });
  const auto found = findings_of(telemetry, "cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  expect_span(telemetry, found[0], 52, 67, 0.3);
  ASSERT_TRUE(found[0].impact.seconds.has_value());
  EXPECT_GT(*found[0].impact.seconds, 2);
  EXPECT_LT(*found[0].impact.seconds, 9);
  ASSERT_FALSE(found[0].evidence.empty());
  EXPECT_EQ(found[0].evidence[0].metric, "job.outsider_cpu");
  EXPECT_NEAR(found[0].evidence[0].observed.value_or(0), 0.55, 0.15);
  EXPECT_FALSE(found[0].remedy.user.empty());
}

TEST(RuleOutsider, NamesProcessesThatTheCollectorMayName) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    outsider(52, 67, 1, 1.0, second, demand);
  });
  const auto at = [&](std::int64_t second) { return telemetry.begin_utc_ns + second * 1'000'000'000; };
  const std::vector<Event> events = {
      {at(20), "process 17", "outsider", "0.99 cpus, uid 1001: before"},
      {at(57), "process 4711", "outsider", "0.40 cpus, uid 1001: old run"},
      {at(62), "process 4711", "outsider", "0.98 cpus, uid 1001: old run"},
      {at(62), "process 30070", "outsider", "0.84 cpus, uid 0: lab.py"},
      {at(62), "process 4712; rm -rf", "outsider", "0.98 cpus, uid 1001: bad"},
      {at(62), "process 4713", "outsider", "many cpus, uid 1001: bad"},
  };
  const auto found = findings_of(telemetry, "cpu.outsider", {}, {}, events);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].sentence.ends_with(" Among them: old run (process 4711 of user 1001, 0.98 cpus), lab.py (process "
                                  "30070 of root, 0.84 cpus)."))
      << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.advice.empty()) << "only administrators can do something";
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("ps -o pid,user,lstart,psr,time,args -p 4711,30070 "));
}

TEST(RuleOutsider, FindsThirtyPercentOfOneCpu) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const auto telemetry = SyntheticNode{}.record(
        120,
        [](double second, Demand& demand) {
          SyntheticNode::training(second, demand);
          outsider(71, 86, 0, 0.3, second, demand);
        },
        seed);
    const auto found = findings_of(telemetry, "cpu.outsider");
    ASSERT_EQ(found.size(), 1U) << seed;
    EXPECT_EQ(found[0].severity, Severity::warning) << seed;
    EXPECT_NEAR(seconds_of(telemetry, found[0].intervals.at(0).begin_utc_ns), 71, 0.5) << seed;
    EXPECT_NEAR(seconds_of(telemetry, found[0].intervals.at(0).end_utc_ns), 86, 0.5) << seed;
  }
}

TEST(RuleOutsider, NamesTheCpusThatAreFree) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    outsider(52, 67, 1, 1.0, second, demand);
  });
  const auto lines = [&](const std::string& cpus) {
    std::string all;
    const auto found = findings_of(telemetry, "cpu.outsider", {}, {{"job.cpus_allowed", cpus}});
    for (const std::string& line : found.at(0).remedy.user) all += line + '\n';
    return all;
  };
  EXPECT_EQ(lines("0-1").find("taskset"), std::string::npos) << "one is less than it uses: " << lines("0-1");
  EXPECT_NE(lines("0-3").find("taskset -c 0,2-3   #"), std::string::npos) << lines("0-3");
  EXPECT_EQ(lines("1").find("taskset"), std::string::npos) << lines("1");
}

TEST(RuleOutsider, FindsOneThatStaysForMostOfTheJob) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    outsider(25, 95, 0, 1.0, second, demand);
  });
  const auto found = findings_of(telemetry, "cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  expect_span(telemetry, found[0], 25, 95, 0.5);
  EXPECT_EQ(found[0].severity, Severity::warning);
}

TEST(RuleOutsider, IsSilentOnKernelThreadsOfTheJobsLongestPhase) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    demand.job[0] = demand.job[1] = 0.3;
    if (second < 22 || second > 90) return;
    SyntheticNode::training(second, demand);
    demand.outsider[0] = demand.outsider[1] = 0.3;
  });
  EXPECT_TRUE(findings_of(telemetry, "cpu.outsider").empty());
}

TEST(RuleOutsider, IsSilentOnAHealthyJob) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    const auto telemetry = SyntheticNode{}.record(120, SyntheticNode::training, seed);
    EXPECT_TRUE(findings_of(telemetry, "cpu.outsider").empty()) << seed;
  }
}

TEST(RuleOutsider, IsSilentWhenTheJobItselfDoesMore) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    demand.job[0] = 0.9;
    demand.job[1] = second >= 50 && second < 65 ? 1.0 : 0.1;
  });
  EXPECT_TRUE(findings_of(telemetry, "cpu.outsider").empty());
}

TEST(RuleOutsider, IsSilentWhenTheOutsiderTookOnlyIdleTime) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    demand.job[0] = 0.9;
    demand.job[1] = 0;
    outsider(50, 65, 1, 0.9, second, demand);
  });
  EXPECT_TRUE(findings_of(telemetry, "cpu.outsider").empty());
}

TEST(RuleOutsider, FindsOneThatNeverLeaves) {
  const auto telemetry = SyntheticNode{}.record(60, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    demand.outsider[0] = demand.outsider[1] = 1;
  });
  const auto found = findings_of(telemetry, "cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NEAR(found[0].evidence[0].observed.value_or(0), 1.1, 0.2);
  EXPECT_NEAR(seconds_of(telemetry, found[0].intervals[0].end_utc_ns), 60, 0.2);
}

/// A job that owns 128 cpus, which are measured together; others use some of these from the first second to the last.
RuleRecording large_node(double used, double others, double waited) {
  RuleRecording node;
  node.counter("cpu.user", "job_cpus", RuleRecording::always((used + others) * 1e9))
      .counter("cpu.nice", "job_cpus", RuleRecording::always(0))
      .counter("cpu.system", "job_cpus", RuleRecording::always(0))
      .gauge("job.cpu_allowed", "job_cpus", RuleRecording::always(1))
      .counter("job.cpu_time", "", RuleRecording::always(used * 1e9))
      .counter("job.wait_time", "", RuleRecording::always(waited * 1e9));
  return node;
}

TEST(RuleOutsider, LeavesTheServicesOfALargeNodeAlone) {
  EXPECT_TRUE(large_node(127.3, 0.35, 0.2).findings("cpu.outsider").empty()) << "0.16 % of the job";
  EXPECT_EQ(large_node(120, 4, 4).findings("cpu.outsider").size(), 1U);
}

/// 16 of its processes are measured one by one.
void add_measured(RuleRecording& node, double processes, double cpus_of_measured) {
  constexpr int kMeasured = 16;
  node.gauge("job.processes", "", RuleRecording::always(processes));
  for (int rank = 0; rank < kMeasured; ++rank) {
    node.counter("process.cpu_time", "rank" + std::to_string(rank),
                 RuleRecording::always(cpus_of_measured / kMeasured * 1e9), "rank");
  }
}

TEST(RuleOutsider, RatesTheWaitingOfMeasuredProcessesByTheirOwnCpus) {
  RuleRecording node = large_node(120, 4, 1);
  add_measured(node, 128, 15);
  const auto found = node.findings("cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 120 * 0.5 / 15.5, 0.3) << "an eighth of the 4 cpus";
  EXPECT_NE(found[0].sentence.find("those processes of the job that were measured got"), std::string::npos)
      << found[0].sentence;

  RuleRecording event;
  event.counter("cpu.user", "job_cpus", RuleRecording::event(64e9, 65e9))
      .counter("cpu.nice", "job_cpus", RuleRecording::always(0))
      .counter("cpu.system", "job_cpus", RuleRecording::always(0))
      .gauge("job.cpu_allowed", "job_cpus", RuleRecording::always(1))
      .counter("job.cpu_time", "", RuleRecording::always(64e9))
      .counter("job.wait_time", "", RuleRecording::event(0, 0.5e9));
  add_measured(event, 64, 16);
  const auto passing = event.findings("cpu.outsider");
  ASSERT_EQ(passing.size(), 1U);
  EXPECT_NEAR(passing[0].impact.seconds.value_or(0), 0.5 * 15 / 16, 0.06);
  EXPECT_TRUE(passing[0].impact.how.starts_with("the processes that were measured together waited 7."))
      << passing[0].impact.how;
  EXPECT_NE(passing[0].impact.how.find(" s more than usual for a cpu, shared by the 15."), std::string::npos)
      << passing[0].impact.how;
}

TEST(RuleOutsider, SharesTheWaitingOfAJobOfOneCpuByNoCpus) {
  RuleRecording node;
  node.counter("cpu.user", "job_cpus", RuleRecording::event(0.9e9, 1.9e9))
      .counter("cpu.nice", "job_cpus", RuleRecording::always(0))
      .counter("cpu.system", "job_cpus", RuleRecording::always(0))
      .gauge("job.cpu_allowed", "job_cpus", RuleRecording::always(1))
      .counter("job.cpu_time", "", RuleRecording::always(0.9e9))
      .counter("job.wait_time", "", RuleRecording::event(0, 0.5e9));
  const auto found = node.findings("cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].impact.how.starts_with("the job's processes together waited ") &&
              found[0].impact.how.ends_with(" s more than usual for a cpu"))
      << found[0].impact.how;
}

TEST(RuleOutsider, FindsThirtyPercentBesideHeavyInterruptsChargedToTheJob) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    demand.softirq = 0.35;
    outsider(52, 67, 1, 0.3, second, demand);
  });
  const auto found = findings_of(telemetry, "cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  expect_span(telemetry, found[0], 52, 67, 0.5);
}

TEST(RuleOutsider, IsSilentOnInterruptWorkForTheJob) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 50 && second < 65) demand.softirq = 0.5;
  });
  EXPECT_TRUE(findings_of(telemetry, "cpu.outsider").empty());
}

TEST(RuleOutsider, KeepsAnEventBesideAHabit) {
  const auto telemetry = SyntheticNode{}.record(240, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    for (const double begin : {22.0, 62.0, 102.0, 142.0}) outsider(begin, begin + 5, 1, 0.5, second, demand);
    outsider(182, 212, 1, 1.0, second, demand);
    outsider(182, 212, 0, 1.0, second, demand);
  });
  const auto found = findings_of(telemetry, "cpu.outsider");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].intervals.size(), 1U);
  EXPECT_GE(found[0].severity, Severity::warning);
  EXPECT_NEAR(seconds_of(telemetry, found[0].intervals.at(0).begin_utc_ns), 182, 0.5);
}

TEST(RuleOutsider, NamesTheCpuThatGotBusierThroughMissingSamples) {
  auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    demand.job[0] = demand.job[1] = 0.6;
    outsider(52, 67, 1, 1.0, second, demand);
  });
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric == "cpu.user") telemetry.series(i)[560] = std::nan("");
  }
  const auto found = findings_of(telemetry, "cpu.outsider");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu1"});
}

TEST(RuleOutsider, SaysNothingAboutAJobWithoutAWholeSecond) {
  auto telemetry = SyntheticNode{}.record(0.5, SyntheticNode::training);
  const Snapshot nothing;
  const Detection detection;
  const RuleContext::Node node{telemetry, detection, nothing, nothing, {}};
  const RuleSpec* spec = find_rule("cpu.outsider");
  ASSERT_NE(spec, nullptr);
  const std::vector<RuleContext::Override> any_length{{"min_constant_seconds", 0}};
  EXPECT_TRUE(spec->check(RuleContext(*spec, node, {}, any_length)).empty());
}

TEST(RuleOutsider, SaysWhatItCouldNotMeasure) {
  SyntheticNode node;
  node.left_out = {"job.cpu_time"};
  const auto telemetry = node.record(60, SyntheticNode::training);
  EXPECT_THROW(findings_of(telemetry, "cpu.outsider"), Unavailable);
}

TEST(RuleAffinity, FindsAJobSqueezedOntoOneCpu) {
  SyntheticNode node;
  node.cpus_allowed = 1;
  node.runnable_more = 1;
  const auto telemetry = node.record(60, [](double, Demand& demand) { demand.job[0] = 1; });
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].evidence.at(0).observed, 1);
  EXPECT_EQ(found[0].evidence.at(0).expected, 2);
}

TEST(RuleAffinity, SaysTheSameInPercentAsInSeconds) {
  SyntheticNode node;
  node.cpus_allowed = 1;
  node.runnable_more = 1;
  const auto telemetry = node.record(60, [](double second, Demand& demand) { demand.job[0] = second < 40 ? 1 : 0.85; });
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LT(found[0].impact.seconds.value_or(99), 25);
  EXPECT_NEAR(found[0].impact.percent.value_or(0), 100 * found[0].impact.seconds.value_or(0) / 60, 1e-9);
}

TEST(RuleAffinity, LeavesASingleThreadAlone) {
  SyntheticNode node;
  node.cpus_allowed = 1;
  const auto telemetry = node.record(60, [](double, Demand& demand) { demand.job[0] = 1; });
  EXPECT_TRUE(findings_of(telemetry, "cpu.affinity_too_narrow").empty());
}

TEST(RuleAffinity, CountsAllThreadsOfAProcess) {
  SyntheticNode node;
  node.cpus_allowed = 1;
  node.runnable_more = 3;
  auto telemetry = node.record(60, [](double, Demand& demand) { demand.job[0] = 1; });
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != "job.running") continue;
    for (double& value : telemetry.series(i)) value = 0;  // its main thread waits for the others
  }
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find(" threads were ready to run on average"), std::string::npos) << found[0].sentence;
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30, 2);  // both cpus would have been busy
  for (const Evidence& evidence : found[0].evidence) EXPECT_NE(evidence.metric, "job.running");
}

TEST(RuleAffinity, LeavesAWideMaskAlone) {
  SyntheticNode node;
  node.runnable_more = 3;
  const auto telemetry = node.record(60, SyntheticNode::training);
  EXPECT_TRUE(findings_of(telemetry, "cpu.affinity_too_narrow").empty());
}

TEST(RuleAffinity, BlamesNoMaskForAnOutsidersWork) {
  SyntheticNode node;
  node.cpus_allowed = 1;
  node.runnable_more = 1;
  const auto telemetry = node.record(60, [](double, Demand& demand) {
    demand.job[0] = 0.4;
    demand.outsider[0] = 0.6;
  });
  EXPECT_TRUE(findings_of(telemetry, "cpu.affinity_too_narrow").empty());
}

/// A job of three threads on one of two cpus until `wide_from`, on both of them until `narrow_from`.
Telemetry widened_job(double wide_from, double narrow_from) {
  SyntheticNode node;
  node.cpus_allowed = 1;
  node.runnable_more = 2;
  Telemetry telemetry = node.record(60, [](double, Demand& demand) { demand.job[0] = 1; });
  const std::map<std::string, double> wide{{"job.cpus_allowed", 2},  {"job.running", 3},  {"job.cpu_time", 0.2e9},
                                           {"job.wait_time", 0.1e9}, {"cpu.user", 0.1e9}, {"job.cpu_allowed", 1}};
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const auto value = wide.find(telemetry.channels[i].metric);
    if (value == wide.end()) continue;
    for (auto t = static_cast<std::size_t>(wide_from * 10); t < static_cast<std::size_t>(narrow_from * 10); ++t) {
      telemetry.series(i)[t] = value->second;
    }
  }
  return telemetry;
}

Event intervention(const Telemetry& telemetry, double second, const char* code, const char* text) {
  return {telemetry.begin_utc_ns + static_cast<std::int64_t>(second * 1e9), "cpu.affinity_too_narrow", code, text};
}

TEST(RuleAffinity, TellsWhatRevealChangedAndWhatThatBrought) {
  const Telemetry telemetry = widened_job(20, 60);
  const std::vector<Event> events{
      intervention(telemetry, 20, "intervention_tried", "widened the cpus of 1 process (3 threads) from 0 to 0-1"),
      intervention(telemetry, 32, "intervention_kept", "waiting 2.00 -> 1.00, cpus used 1.00 -> 2.00")};
  EXPECT_TRUE(findings_of(telemetry, "cpu.affinity_too_narrow").empty()) << "most of the time it had both cpus";
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].intervals.size(), 1U);
  expect_span(telemetry, found[0], 0, 20, 1e-6);
  EXPECT_GT(found[0].impact.seconds.value_or(0), 5);
  EXPECT_LE(found[0].impact.seconds.value_or(99), 10.1);
  EXPECT_TRUE(found[0].sentence.starts_with("The job's processes could use only 1 of the 2 cpus"));
  EXPECT_FALSE(found[0].remedy.advice.empty()) << "the next run needs it";
  ASSERT_EQ(found[0].interventions.size(), 1U);
  const InterventionResult& result = found[0].interventions[0];
  EXPECT_EQ(result.node, "n01");
  EXPECT_EQ(result.outcome, InterventionResult::Outcome::kept);
  EXPECT_EQ(result.span.end_utc_ns - result.span.begin_utc_ns, 12'000'000'000);
  ASSERT_EQ(result.effects.size(), 2U);
  EXPECT_EQ(result.effects[0].metric, "job.wait_time");
  EXPECT_EQ(result.effects[0].unit, "threads");
  EXPECT_NEAR(result.effects[0].mean_before.value_or(0), 2, 0.05);
  EXPECT_NEAR(result.effects[0].mean_after.value_or(0), 1, 1e-9);
  EXPECT_NEAR(result.effects[0].change_low.value_or(0), -1, 0.05);
  EXPECT_LT(result.effects[0].change_low.value_or(0), result.effects[0].change_high.value_or(0));
  EXPECT_EQ(result.effects[1].metric, "job.cpu_time");
  EXPECT_NEAR(result.effects[1].change_high.value_or(0), 1, 0.05);
  EXPECT_TRUE(
      result.sentence.starts_with("At 22:13:40 UTC, reveal widened the cpus of 1 process (3 threads) from 0 to "
                                  "0-1 on n01: threads without a cpu "))
      << result.sentence;
  EXPECT_NE(result.sentence.find(" before and 1.00 after (95 % interval of the change if nothing else changed: -"),
            std::string::npos)
      << result.sentence;
  EXPECT_TRUE(result.sentence.ends_with("). The job used more cpu time, so it stays for these processes."))
      << result.sentence;
}

TEST(RuleAffinity, LeavesOutTheTimeInWhichATrialWasMade) {
  const Telemetry telemetry = widened_job(20, 32);
  const std::vector<Event> events{
      intervention(telemetry, 20, "intervention_tried", "widened the cpus of 1 process (3 threads) from 0 to 0-1"),
      intervention(telemetry, 32, "intervention_undone", "gave 3 threads cpus 0 again")};
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].intervals.size(), 2U);
  EXPECT_NEAR(seconds_of(telemetry, found[0].intervals[1].begin_utc_ns), 32, 1e-6);
  EXPECT_TRUE(found[0].sentence.starts_with("The job's processes may use only 1 of the 2 cpus"));
  ASSERT_EQ(found[0].interventions.size(), 1U);
  EXPECT_EQ(found[0].interventions[0].outcome, InterventionResult::Outcome::undone);
  EXPECT_TRUE(found[0].interventions[0].sentence.ends_with(
      "The job used hardly more cpu time, or its threads waited as before, so it was undone."));
}

TEST(RuleAffinity, SpeaksOfNoChangeThatTheIntervalDoesNotShow) {
  Telemetry telemetry = widened_job(60, 60);
  std::vector<Event> events{intervention(telemetry, 20, "intervention_tried", "widened the cpus"),
                            intervention(telemetry, 32, "intervention_kept", "waiting 2.00 -> 2.00")};
  const auto sentence = [&] {
    const auto found = findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events);
    return found.empty() || found[0].interventions.empty() ? "" : found[0].interventions[0].sentence;
  };
  EXPECT_TRUE(sentence().ends_with(" Its effect is unclear; it stays for these processes.")) << sentence();
  events[1] = intervention(telemetry, 32, "intervention_withdrawn", "gave 3 threads cpus 0 again; it failed");
  EXPECT_TRUE(sentence().ends_with(" Its effect is not known, and it was undone.")) << sentence();
}

TEST(RuleAffinity, ComparesNoWaitingOfWhichThreadsWereLeftOut) {
  const Telemetry telemetry = widened_job(20, 60);
  const std::vector<Event> events{
      intervention(telemetry, 20, "intervention_tried", "widened the cpus"),
      intervention(telemetry, 32, "intervention_kept", "cpus used 1.00 -> 2.00, waiting of all threads not known")};
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].interventions.size(), 1U);
  ASSERT_EQ(found[0].interventions[0].effects.size(), 1U);
  EXPECT_EQ(found[0].interventions[0].effects[0].metric, "job.cpu_time");
}

TEST(RuleAffinity, SeesTheCrowdAgainThatCameAfterAKeptChange) {
  const Telemetry telemetry = widened_job(20, 35);
  const std::vector<Event> events{intervention(telemetry, 20, "intervention_tried", "widened the cpus"),
                                  intervention(telemetry, 32, "intervention_kept", "")};
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].intervals.size(), 2U);
  EXPECT_NEAR(seconds_of(telemetry, found[0].intervals[1].begin_utc_ns), 35, 0.11);
}

TEST(RuleAffinity, TellsWhyRevealChangedNothing) {
  const Telemetry telemetry = widened_job(60, 60);
  const std::vector<Event> events{intervention(telemetry, 20, "intervention_refused", "its user refused")};
  const auto found = findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].interventions.size(), 1U);
  EXPECT_EQ(found[0].interventions[0].sentence, "reveal changed nothing on n01: its user refused.");
  EXPECT_TRUE(found[0].interventions[0].effects.empty());
}

TEST(RuleAffinity, SurvivesImpossibleInterventions) {
  const Telemetry telemetry = widened_job(60, 60);
  std::vector<Event> events{intervention(telemetry, 5, "intervention_kept", ""),
                            {INT64_MAX, "cpu.affinity_too_narrow", "intervention_tried", ""},
                            {INT64_MIN, "cpu.affinity_too_narrow", "intervention_undone", ""}};
  for (int i = 0; i < 1000; ++i) {
    events.push_back(intervention(telemetry, 59 - i, "intervention_tried", "widened"));
    events.push_back(intervention(telemetry, i, "intervention_refused", "no"));
  }
  try {
    for (const Finding& finding : findings_of(telemetry, "cpu.affinity_too_narrow", {}, {}, events)) {
      EXPECT_LE(finding.interventions.size(), 8U);
      EXPECT_GT(finding.impact.seconds.value_or(0), 0);
    }
  } catch (const Unavailable&) {  // nothing is left to judge
  }
}

TEST(RuleWriteback, FindsAnOutsidersFloodThatBlocksTheJob) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 50 && second < 65) {
      demand.outsider_writes = 120e6;
      demand.blocked = std::fmod(second, 1.0) < 0.4 ? 2 : 0;
    }
  });
  const auto found = findings_of(telemetry, "mem.writeback_stall");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(seconds_of(telemetry, found[0].intervals.at(0).begin_utc_ns), 50, 0.3);
  EXPECT_NE(found[0].sentence.find("outside the job"), std::string::npos);
}

TEST(RuleWriteback, AccusesNobodyWhenTheJobsOwnWritesWereNotMeasured) {
  const auto flood = [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 50 && second < 65) {
      demand.own_writes = 120e6;
      demand.blocked = 2;
    }
  };
  SyntheticNode node;
  node.left_out = {"process.write_bytes"};
  EXPECT_THROW(findings_of(node.record(120, flood), "mem.writeback_stall"), Unavailable);

  auto telemetry = SyntheticNode{}.record(120, flood);
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != "process.write_bytes") continue;
    for (std::size_t t = 450; t < 700; ++t) telemetry.series(i)[t] = std::nan("");
  }
  EXPECT_TRUE(findings_of(telemetry, "mem.writeback_stall").empty());
}

TEST(RuleWriteback, AccusesNobodyWhereTheJobHasMoreProcessesThanAreMeasured) {
  auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    if (second >= 50 && second < 65) {
      demand.own_writes = 30e6;  // by the ranks that are measured
      demand.outsider_writes = 90e6;
      demand.blocked = 2;
    }
  });
  EXPECT_EQ(findings_of(telemetry, "mem.writeback_stall").size(), 1U);
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != "job.processes") continue;
    for (double& processes : telemetry.series(i)) processes = 64;
  }
  EXPECT_TRUE(findings_of(telemetry, "mem.writeback_stall").empty()) << "a checkpoint of 64 ranks, 16 of them measured";
}

TEST(RuleWriteback, CountsNoSecondTwice) {
  constexpr double kWritten = 100e6;
  constexpr double kPage = 4096;
  // 5 of every 20 s, and pages that are never written back: each tail would reach into the next checkpoint.
  const auto checkpoint = [](double level) {
    return [level](double second) { return std::fmod(second, 20) >= 15 ? level : 0; };
  };
  RuleRecording node;
  node.counter("vmstat.nr_dirtied", "", checkpoint(kWritten / kPage))
      .counter("process.write_bytes", "rank0", checkpoint(kWritten), "rank")
      .gauge("mem.dirty", "", RuleRecording::always(1e9))
      .gauge("job.processes", "", RuleRecording::always(4))
      .gauge("job.blocked", "", checkpoint(4));
  const auto found = node.findings("mem.writeback_stall");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30, 2);
}

TEST(RuleWriteback, LeavesTheJobsOwnCheckpointsAlone) {
  const auto telemetry = SyntheticNode{}.record(120, SyntheticNode::training);
  EXPECT_TRUE(findings_of(telemetry, "mem.writeback_stall").empty());
}

TEST(RuleWriteback, OnlyNotesAFloodNobodyWaitedFor) {
  const auto flood = [](double seconds) {
    return SyntheticNode{}.record(120, [seconds](double second, Demand& demand) {
      demand.job[0] = 0.9;
      if (second >= 50 && second < 50 + seconds) demand.outsider_writes = 120e6;
    });
  };
  const auto found = findings_of(flood(15), "mem.writeback_stall");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_TRUE(findings_of(flood(4), "mem.writeback_stall").empty());
}

Episode episode_at(std::size_t begin, std::size_t end) {
  Episode episode;
  episode.begin = begin;
  episode.end = end;
  episode.tier = Tier::strong;
  episode.methods = {Method::interval_scan};
  episode.score = 7;
  episode.reasons = {{.channel = 0, .feature = "mean", .z = 9, .observed = 2, .expected = 1, .share = 1}};
  return episode;
}

TEST(RuleUnexplained, NamesAnEpisodeNobodyExplained) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    outsider(30, 40, 1, 1.0, second, demand);
  });
  Detection detection;
  detection.episodes = {episode_at(300, 400)};
  const auto found = findings_of(telemetry, "anomaly.unexplained", detection);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].evidence.size(), 1U);
}

TEST(RuleUnexplained, OnlyMentionsWhatTheJobDidNotFeel) {
  const auto telemetry = SyntheticNode{}.record(120, SyntheticNode::training);
  Detection detection;
  detection.episodes = {episode_at(300, 400)};
  const auto found = findings_of(telemetry, "anomaly.unexplained", detection);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_NE(found[0].impact.how.find("did not change"), std::string::npos);
}

TEST(RuleUnexplained, TakesWhatTheProgramDoesForAPhaseUnlessItWaitsLonger) {
  const auto reading = [](double waits) {
    RuleRecording node;
    node.counter("process.read_bytes", "rank0", RuleRecording::event(1e6, 400e6), "rank");
    node.counter("job.cpu_time", "", RuleRecording::always(0.9e9));
    node.counter("job.wait_time", "", RuleRecording::event(0.01e9, waits));
    node.detection.episodes = {episode_at(500, 650)};
    return node;
  };
  const auto phase = reading(0.01e9).findings("anomaly.unexplained");
  ASSERT_EQ(phase.size(), 1U);
  EXPECT_EQ(phase[0].severity, Severity::info);
  EXPECT_TRUE(phase[0].sentence.starts_with("The program on n2 did something else for 15 s: process.read_bytes/rank0 "))
      << phase[0].sentence;
  const auto waiting = reading(0.5e9).findings("anomaly.unexplained");
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].severity, Severity::notice);
}

TEST(RuleUnexplained, TakesMoreThreadsForAPhaseUnlessEachOfThemWaitsLonger) {
  const auto found = [](double waits) {
    RuleRecording node;
    node.gauge("job.threads", "", RuleRecording::event(2, 6));
    node.counter("job.cpu_time", "", RuleRecording::event(1.9e9, 1.2e9));
    node.counter("job.wait_time", "", RuleRecording::event(0.03e9, waits));
    node.detection.episodes = {episode_at(500, 650)};
    return node.findings("anomaly.unexplained");
  };
  const auto phase = found(0.15e9);
  ASSERT_EQ(phase.size(), 1U);
  EXPECT_EQ(phase[0].severity, Severity::info) << "three times as many threads wait for three times as long";
  EXPECT_TRUE(phase[0].sentence.starts_with("The program on n2 did something else for 15 s: job.threads "))
      << phase[0].sentence;
  const auto crowded = found(0.6e9);
  ASSERT_EQ(crowded.size(), 1U);
  EXPECT_EQ(crowded[0].severity, Severity::notice);
}

TEST(RuleUnexplained, OnlyMentionsWhatTookNoWorkFromTheJob) {
  const auto found = [](double usual, double inside, double waits = 0.01e9) {
    RuleRecording node;
    node.gauge("kernel.dentries", "", RuleRecording::event(3e5, 6e5));
    node.counter("job.cpu_time", "", RuleRecording::event(0.4e9, 0.9e9));
    node.counter("job.wait_time", "", RuleRecording::event(0.01e9, waits));
    node.counter("process.read_by_calls", "rank0", RuleRecording::event(usual, inside), "rank");
    node.detection.episodes = {episode_at(500, 650)};
    return node.findings("anomaly.unexplained");
  };
  const auto same = found(5e6, 5e6);
  ASSERT_EQ(same.size(), 1U);
  EXPECT_EQ(same[0].severity, Severity::info);
  EXPECT_TRUE(same[0].impact.how.starts_with("none seen: the read calls (sockets included) of ")) << same[0].impact.how;
  const auto few = found(5e3, 5e3);
  ASSERT_EQ(few.size(), 1U);
  EXPECT_EQ(few[0].severity, Severity::notice) << "it may be a log that is written whatever the job does";
  const auto less = found(5e6, 4.6e6);
  ASSERT_EQ(less.size(), 1U);
  EXPECT_EQ(less[0].severity, Severity::notice);
  const auto later = found(5e6, 5e6, 0.5e9);
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].severity, Severity::notice) << "a service answers as many requests, but each of them later";
}

TEST(RuleUnexplained, TellsClearChangesBeforeLevelsThatHardlyMove) {
  RuleRecording node;
  node.gauge("kernel.dentries", "", RuleRecording::event(357'627, 357'655));
  node.counter("process.read_bytes", "rank0", RuleRecording::event(25e3, 400e6), "rank");
  node.counter("job.wait_time", "", RuleRecording::event(0.01e9, 0.5e9));
  Episode episode = episode_at(500, 650);
  episode.reasons = {
      {.channel = 0, .feature = "level", .z = 90, .observed = 357'655, .expected = 357'627, .share = 0.6},
      {.channel = 1, .feature = "mean", .z = 9, .observed = 400e6, .expected = 25e3, .share = 0.4}};
  node.detection.episodes = {episode};
  const auto found = node.findings("anomaly.unexplained");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "process.read_bytes");
  EXPECT_EQ(found[0].evidence.at(1).metric, "kernel.dentries");
}

TEST(RuleUnexplained, BoundsTheCostByTheWorkThatWasNotDone) {
  RuleRecording node;
  node.counter("job.wait_time", "", RuleRecording::event(0.01e9, 0.5e9));
  node.counter("process.read_by_calls", "rank0", RuleRecording::event(1e6, 0.2e6), "rank");
  node.detection.episodes = {episode_at(500, 650)};
  const auto found = node.findings("anomaly.unexplained");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 12, 0.2);
  EXPECT_NEAR(found[0].impact.percent.value_or(0), 10, 0.2);
  EXPECT_TRUE(found[0].impact.at_most) << "it may have had less to do";
  EXPECT_EQ(found[0].severity, Severity::notice);
}

TEST(RuleUnexplained, LeavesEdgesAndNoticesAlone) {
  const auto telemetry = SyntheticNode{}.record(120, SyntheticNode::training);
  Detection detection;
  detection.episodes = {episode_at(10, 100), episode_at(300, 400)};
  detection.episodes[0].labels = {Label::edge};
  detection.episodes[1].tier = Tier::weak;
  EXPECT_TRUE(findings_of(telemetry, "anomaly.unexplained", detection).empty());
}

TEST(RuleUnexplained, TakesARemarkOnTheWholeRunForNoReason) {
  const auto telemetry = SyntheticNode{}.record(120, SyntheticNode::training);
  Detection detection;
  detection.episodes = {episode_at(300, 400)};
  const Snapshot nothing;
  const RuleContext::Node node{telemetry, detection, nothing, nothing, {}};
  const RuleSpec& rule = *find_rule("anomaly.unexplained");
  const auto second = [&](std::int64_t at) { return telemetry.begin_utc_ns + at * 1'000'000'000; };
  std::vector<Finding> before(1);
  const auto findings = [&] { return rule.check(RuleContext(rule, node, before, {})).size(); };
  before[0].severity = Severity::info;
  before[0].intervals = {{second(0), second(120)}};
  EXPECT_EQ(findings(), 1U);
  before[0].intervals = {{second(28), second(45)}};
  EXPECT_EQ(findings(), 0U) << "the remark is on this time";
  before[0].severity = Severity::notice;
  before[0].intervals = {{second(0), second(120)}};
  EXPECT_EQ(findings(), 0U) << "more than a remark";
}

TEST(RuleUnexplained, IsSilentWhereARuleSpoke) {
  const auto telemetry = SyntheticNode{}.record(120, [](double second, Demand& demand) {
    SyntheticNode::training(second, demand);
    outsider(52, 67, 1, 1.0, second, demand);
  });
  Detection detection;
  detection.episodes = {episode_at(520, 668)};
  const Snapshot nothing;
  std::vector<NotChecked> not_checked;
  const auto found = run_rules({telemetry, detection, nothing, nothing, {}}, {}, not_checked);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "cpu.outsider");
  EXPECT_NE(
      std::find(found[0].evidence[0].detectors.begin(), found[0].evidence[0].detectors.end(), Method::interval_scan),
      found[0].evidence[0].detectors.end());
}

TEST(Rules, EveryRuleIsCompleteAsATableRow) {
  ASSERT_GE(rules().size(), 4U);
  for (const RuleSpec* rule : rules()) {
    const bool of_one_node = rule->kind == FindingKind::anomaly || rule->kind == FindingKind::audit;
    EXPECT_EQ(rule->check != nullptr, of_one_node) << rule->id;
    EXPECT_FALSE(rule->title.empty()) << rule->id;
    EXPECT_FALSE(rule->user_remedy.empty() && rule->advice.empty() && rule->admin_remedy.empty()) << rule->id;
    EXPECT_FALSE(rule->sources.empty()) << rule->id;
    for (const Threshold& threshold : rule->thresholds) {
      EXPECT_FALSE(threshold.unit.empty()) << rule->id << " " << threshold.name;
      EXPECT_FALSE(threshold.help.empty()) << rule->id << " " << threshold.name;
    }
  }
}

std::vector<Finding> about_a_nameless_process(const RuleContext&) {
  Finding finding;
  finding.sentence = "the job's process on n01 allocated memory.";
  return {finding, Finding{}};
}

TEST(RunRules, BeginsASentenceWithACapital) {
  const RuleSpec rule{.id = "test.rule", .check = about_a_nameless_process};
  const Telemetry telemetry;
  const Detection detection;
  std::vector<Finding> found;
  std::vector<NotChecked> not_checked;
  run_rule(rule, {.telemetry = telemetry, .detection = detection, .begin = {}, .end = {}, .events = {}}, {}, found,
           not_checked);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].sentence, "The job's process on n01 allocated memory.");
  EXPECT_EQ(found[1].sentence, "");
}

}  // namespace
}  // namespace reveal::tests::rules_test
