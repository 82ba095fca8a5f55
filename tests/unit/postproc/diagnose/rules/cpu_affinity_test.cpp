// cpu.affinity_too_narrow on nodes with many cpus; rules_test.cpp has those with two.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_affinity_test {
namespace {

using R = RuleRecording;

/// A job that owns eight hardware threads of four cores, may use the first four, and fills these.
R one_thread_per_core(double ready) {
  R node;
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string name = "cpu" + std::to_string(cpu);
    node.counter("cpu.user", name, R::always(cpu < 4 ? 1e9 : 0));
    node.counter("cpu.nice", name, R::always(0)).counter("cpu.system", name, R::always(0));
    node.gauge("job.cpu_allowed", name, R::always(cpu < 4 ? 1 : 0));
  }
  node.gauge("job.cpus_allowed", "", R::always(4)).gauge("job.cpus_owned", "", R::always(8));
  node.gauge("job.running", "", R::always(ready));
  node.counter("job.cpu_time", "", R::always(4e9));
  node.begin = {{"job.cpus_allowed", "0-3"}, {"job.cpus_owned", "0-7"}};
  return node;
}

TEST(RuleAffinity, LeavesOneThreadOnEachCoreAlone) {
  R node = one_thread_per_core(5);
  const auto found = node.findings("cpu.affinity_too_narrow");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with("; the busiest cpu that they may use was full for 100 % of the time."))
      << found[0].sentence;
  EXPECT_NE(found[0].remedy.user.at(0).find(" Fewer than 8 cpus: this shell has the narrow mask; 8 or more: "),
            std::string::npos)
      << found[0].remedy.user[0];
  node.begin.emplace_back("cpu_threads.0", "0,4 1,5 2,6 3,7");
  EXPECT_TRUE(node.findings("cpu.affinity_too_narrow").empty());
  R crowd = one_thread_per_core(8);
  crowd.begin = node.begin;
  EXPECT_EQ(crowd.findings("cpu.affinity_too_narrow").size(), 1U);
}

/// A job that owns 128 cpus, which are measured together, and may use these many of them.
R large_job(double allowed, double ready) {
  R node;
  node.counter("cpu.user", "job_cpus", R::always(allowed * 1e9));
  node.counter("cpu.nice", "job_cpus", R::always(0)).counter("cpu.system", "job_cpus", R::always(0));
  node.counter("cpu.user_max", "job_cpus", R::always(1e9));
  node.gauge("job.cpu_allowed", "job_cpus", R::always(kNaN));
  node.gauge("job.cpus_allowed", "", R::always(allowed)).gauge("job.cpus_owned", "", R::always(128));
  node.gauge("job.running", "", R::always(1));
  node.counter("job.cpu_time", "", R::always(allowed * 1e9));
  node.counter("job.wait_time", "", R::always((ready - allowed) * 1e9));
  return node;
}

TEST(RuleAffinity, FindsANarrowMaskInAJobOfManyCpus) {
  const auto found = large_job(2, 64).findings("cpu.affinity_too_narrow");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).observed, 2);
  EXPECT_EQ(found[0].evidence.at(0).expected, 128);
  R unknown = large_job(2, 64);
  for (Channel& channel : unknown.telemetry.channels) {
    if (channel.metric == "cpu.user_max") channel.metric = "cpu.user_spread";
  }
  EXPECT_THROW(static_cast<void>(unknown.findings("cpu.affinity_too_narrow")), Unavailable);
}

TEST(RuleAffinity, CountsThreadsThatAreNotMeasured) {
  R node = large_job(2, 3);
  node.gauge("process.threads", "rank0", R::always(130), "rank");
  node.counter("process.cpu_time", "rank0", R::always(2e9), "rank");
  node.counter("process.run_time", "rank0", R::always(0.02e9), "rank");
  node.counter("process.wait_time", "rank0", R::always(0.98e9), "rank");
  const auto found = node.findings("cpu.affinity_too_narrow");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.percent.value_or(0), 98, 1);
}

TEST(RuleAffinity, TakesHelperThreadsForNoLackOfCpus) {
  EXPECT_TRUE(large_job(64, 65).findings("cpu.affinity_too_narrow").empty());
  EXPECT_EQ(large_job(64, 100).findings("cpu.affinity_too_narrow").size(), 1U);
}

}  // namespace
}  // namespace reveal::tests::cpu_affinity_test
