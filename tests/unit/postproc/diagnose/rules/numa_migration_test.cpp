// numa.unbound_migrating and numa.autobalancing_churn: ranks that wander, and a kernel that works for nothing.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/report/wording.h"
#include "rule_recording.h"

namespace reveal::tests::numa_migration_test {
namespace {

using R = RuleRecording;

Snapshot two_nodes(const char* distance = "21") {
  const std::string far(distance);
  return {{"job.cpus_allowed", "0-3"}, {"numa.node0.cpus", "0-1"},           {"numa.node0.distance", "10 " + far},
          {"numa.node1.cpus", "2-3"},  {"numa.node1.distance", far + " 10"}, {"kernel.numa_balancing", "1"}};
}

/// The cpus in turn, each for so many seconds.
R::Course wandering(double seconds_each) {
  return [=](double second) { return static_cast<int>(second / seconds_each) % 2 == 0 ? 1.0 : 2.0; };
}

struct Rank {
  double seconds_each = 0.4;
  double used = 0.95;
  double threads = 1;
  double cpus = 4;
};

R job_of(const Rank& rank, double migrated = 5000) {
  R node;
  node.begin = two_nodes();
  node.gauge("process.last_cpu", "rank0", wandering(rank.seconds_each), "rank")
      .gauge("process.threads", "rank0", R::always(rank.threads), "rank")
      .gauge("process.cpus_allowed", "rank0", R::always(rank.cpus), "rank")
      .counter("process.cpu_time", "rank0", R::always(rank.used * 1e9), "rank")
      .counter("vmstat.numa_pages_migrated", "", R::always(migrated))
      .counter("vmstat.numa_hint_faults", "", R::always(migrated))
      .counter("vmstat.numa_hint_faults_local", "", R::always(migrated / 10));
  return node;
}

TEST(RuleUnboundMigrating, FindsARankThatWandersAndThePagesMovedAfterIt) {
  R node = job_of({});
  node.begin.emplace_back("env.SLURM_JOB_ID", "7");
  node.begin.emplace_back("env.SLURM_CPUS_PER_TASK", "2");
  const RuleContext::Node all{node.telemetry, node.detection, node.begin, node.end, node.events, 0, {}, "solver"};
  const RuleSpec* spec = find_rule("numa.unbound_migrating");
  const auto found = spec->check(RuleContext(*spec, all, {}, {}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank0"});
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 2.5, 0.1);
  EXPECT_NE(found[0].sentence.find("moved 19.3 MiB/s of memory to them"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].sentence.find("SLURM_CPU_BIND"), std::string::npos) << "it is not set, or was not read";
  ASSERT_FALSE(found[0].remedy.user.empty());
  EXPECT_NE(found[0].remedy.user[0].find("--cpus-per-task=2"), std::string::npos) << found[0].remedy.user[0];
}

TEST(RuleUnboundMigrating, BindsToANodeThatTheJobMayUse) {
  R node = job_of({});
  node.begin = {{"job.cpus_allowed", "2-5"},         {"numa.node0.cpus", "0-1"},
                {"numa.node0.distance", "10 21 21"}, {"numa.node1.cpus", "2-3"},
                {"numa.node1.distance", "21 10 21"}, {"numa.node2.cpus", "4-5"},
                {"numa.node2.distance", "21 21 10"}};
  for (double& cpu : node.telemetry.series(0)) cpu *= 2;  // 2 and 4: of nodes 1 and 2
  const auto found = node.findings("numa.unbound_migrating");
  ASSERT_EQ(found.size(), 1U);
  ASSERT_FALSE(found[0].remedy.user.empty());
  EXPECT_TRUE(found[0].remedy.user[0].starts_with("numactl --cpunodebind=1 --localalloc ")) << found[0].remedy.user[0];
}

TEST(RuleUnboundMigrating, IsOnlyAnInfoWhereNothingThatFollowsWasMeasured) {
  R node;
  node.begin = two_nodes();
  node.gauge("process.last_cpu", "rank0", wandering(0.4), "rank")
      .gauge("process.threads", "rank0", R::always(1), "rank")
      .counter("process.cpu_time", "rank0", R::always(0.95e9), "rank");
  const auto found = node.findings("numa.unbound_migrating");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
}

TEST(RuleUnboundMigrating, IsSilentWhereNothingFollowed) {
  EXPECT_TRUE(job_of({}, 10).findings("numa.unbound_migrating").empty());
}

TEST(RuleUnboundMigrating, LeavesRanksAloneThatStayThatAreWideOrThatIdle) {
  EXPECT_FALSE(job_of({}).findings("numa.unbound_migrating").empty());
  EXPECT_TRUE(job_of({.seconds_each = 30}).findings("numa.unbound_migrating").empty()) << "once in a while";
  EXPECT_TRUE(job_of({.used = 3, .threads = 4}).findings("numa.unbound_migrating").empty()) << "wider than a node";
  EXPECT_TRUE(job_of({.used = 0.1}).findings("numa.unbound_migrating").empty())
      << "the main thread of a program whose loaders work wakes anywhere";
}

TEST(RuleUnboundMigrating, LeavesSlotsAloneWhoseProcessesChange) {
  R compiling;
  compiling.begin = two_nodes();
  compiling.gauge("process.last_cpu", "slot3", wandering(0.4))
      .gauge("process.threads", "slot3", R::always(1))
      .counter("process.cpu_time", "slot3", R::always(0.95e9));
  EXPECT_TRUE(compiling.findings("numa.unbound_migrating").empty());
}

TEST(RuleUnboundMigrating, LeavesTooFewCpusToTheirOwnRule) {
  R crowded = job_of({});
  crowded.counter("job.wait_time", "", R::always(0.8e9));
  EXPECT_TRUE(crowded.findings("numa.unbound_migrating").empty());
  crowded.counter("process.wait_time", "rank0", R::always(0.02e9), "rank");
  EXPECT_EQ(crowded.findings("numa.unbound_migrating").size(), 1U) << "other processes of the job waited";
}

TEST(RuleUnboundMigrating, IsSilentOnBoundJobsAndWithinASocket) {
  R bound = job_of({});
  bound.begin[0].second = "0-1";
  EXPECT_TRUE(bound.findings("numa.unbound_migrating").empty());
  R socket = job_of({});
  socket.begin = two_nodes("12");
  EXPECT_TRUE(socket.findings("numa.unbound_migrating").empty());
}

TEST(RuleUnboundMigrating, SaysWhatItCannotSee) {
  R nothing;
  nothing.begin = two_nodes();
  EXPECT_THROW(static_cast<void>(nothing.findings("numa.unbound_migrating")), Unavailable);
  R long_job = job_of({});
  long_job.telemetry.step_seconds = 5;
  EXPECT_THROW(static_cast<void>(long_job.findings("numa.unbound_migrating")), Unavailable);
}

// ------------------------------------------------------------------------------------------------------------
// balancing

/// Every 10 s for 4 s, as the kernel's scans come.
R::Course scans(double quiet, double busy) {
  return [=](double second) { return std::fmod(second, 10) < 4 ? busy : quiet; };
}

R bound_job(const R::Course& faults, double local_share, const R::Course& system, double moved_pages = 0) {
  R node;
  node.begin = two_nodes();
  node.begin[0].second = "0-1";
  node.counter("vmstat.numa_hint_faults", "", faults)
      .counter("vmstat.numa_hint_faults_local", "", [=](double second) { return local_share * faults(second); })
      .counter("vmstat.numa_pages_migrated", "", R::always(moved_pages))
      .counter("cpu.system", "cpu0", system)
      .counter("cpu.user", "cpu0", R::always(1e9))
      .counter("job.cpu_time", "", R::always(1.2e9))
      .gauge("process.rss", "rank0", R::always(1e9), "rank");
  return node;
}

TEST(RuleBalancingChurn, FindsFaultsWithoutBenefitAndTheSystemTimeTheyTake) {
  const auto found = bound_job(scans(20e3, 200e3), 0.95, scans(0.1e9, 0.5e9)).findings("numa.autobalancing_churn");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  // In a third of the seconds 0.4 cpus more than in the quiet ones, of 1.2 that the job used.
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 / 1.2 * 40, 1);
  EXPECT_NE(found[0].sentence.find("95 % of the pages were already on the right node"), std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(only_admins_act(found[0].remedy));
}

TEST(RuleBalancingChurn, FindsPagesThatAreMovedToAndFro) {
  const auto found = bound_job(R::always(20e3), 0.1, R::always(0.3e9), 20e3).findings("numa.autobalancing_churn");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].impact.seconds.has_value()) << "no quiet seconds to compare with";
  EXPECT_NE(found[0].sentence.find("it moved 9.06 GiB, of a job that had 954 MiB at most"), std::string::npos)
      << found[0].sentence;
}

TEST(RuleBalancingChurn, IsSilentOnTheFirstLookAndOnSystemTimeOfSomethingElse) {
  const auto at_first = [](double second) { return second < 20 ? 200e3 : 100; };
  EXPECT_TRUE(bound_job(at_first, 0.95, R::always(0.3e9)).findings("numa.autobalancing_churn").empty());
  EXPECT_TRUE(bound_job(scans(20e3, 200e3), 0.95, R::always(0.3e9)).findings("numa.autobalancing_churn").empty())
      << "system time does not follow the faults";
  EXPECT_TRUE(bound_job(scans(20e3, 200e3), 0.95, scans(1e6, 10e6)).findings("numa.autobalancing_churn").empty())
      << "next to no system time";
}

TEST(RuleBalancingChurn, IsSilentWhereBalancingHelpsOrIsOff) {
  R helps = bound_job(scans(20e3, 200e3), 0.3, scans(0.1e9, 0.5e9), 1000);
  EXPECT_TRUE(helps.findings("numa.autobalancing_churn").empty()) << "pages were elsewhere, and were moved once";
  R unbound = bound_job(scans(20e3, 200e3), 0.95, scans(0.1e9, 0.5e9));
  unbound.begin[0].second = "0-3";
  EXPECT_TRUE(unbound.findings("numa.autobalancing_churn").empty());
  R off = bound_job(scans(20e3, 200e3), 0.95, scans(0.1e9, 0.5e9));
  off.begin.back().second = "0";
  EXPECT_TRUE(off.findings("numa.autobalancing_churn").empty());
}

TEST(RuleBalancingChurn, SaysWhatWasNotMeasured) {
  R no_counters;
  no_counters.begin = two_nodes();
  EXPECT_THROW(static_cast<void>(no_counters.findings("numa.autobalancing_churn")), Unavailable);
  R no_setting = bound_job(R::always(20e3), 0.95, R::always(0.3e9));
  no_setting.begin.pop_back();
  EXPECT_THROW(static_cast<void>(no_setting.findings("numa.autobalancing_churn")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::numa_migration_test
