#include <gtest/gtest.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_reclaim_test {
namespace {

using R = RuleRecording;
constexpr double kGiB = 1073741824;
constexpr double kPages = 20e3;  // a second: 82 MB

/// A job with counters in its own control group, of version 2.
R job_with(const R::Course& again, const R::Course& scanned, const R::Course& waits) {
  R node;
  node.counter("memory_stat.workingset_refault_file", "", again)
      .counter("memory_stat.pgscan", "", scanned)
      .counter("cgroup.io_some", "", waits)
      .counter("cgroup.memory_some", "", R::always(0))
      .counter("cgroup.read_bytes", "", [again](double second) { return again(second) * 4096; });
  return node;
}

TEST(RuleReclaimThrash, FindsFilesThatWereDroppedAndReadAgain) {
  R node = job_with(R::event(0, kPages), R::event(0, kPages), R::event(0.02e9, 0.6e9));
  node.gauge("group.memory", "job", R::always(3.95 * kGiB)).gauge("group.memory_limit", "job", R::always(4 * kGiB));
  node.begin = {{"env.SLURM_JOB_ID", "7"}};
  const auto found = node.findings("mem.reclaim_thrash");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.58 * 15, 1);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(
      found[0].sentence.find("the memory limit of 4 GiB, which includes cached files, was reached (control group job)"),
      std::string::npos)
      << found[0].sentence;
  ASSERT_FALSE(found[0].remedy.user.empty());
  EXPECT_NE(found[0].remedy.user[0].find("--mem=8G"), std::string::npos) << found[0].remedy.user[0];
  node.begin.emplace_back("memory.total", "6000000000");
  const Remedy of_small_node = node.findings("mem.reclaim_thrash").at(0).remedy;
  EXPECT_TRUE(of_small_node.user.at(0).starts_with("grep ")) << "the node has less: " << of_small_node.user.at(0);
  for (Channel& channel : node.telemetry.channels) {
    if (channel.instance == "job") channel.instance = "step_0";
  }
  const Remedy of_step = node.findings("mem.reclaim_thrash").at(0).remedy;
  EXPECT_TRUE(of_step.user.at(0).starts_with("grep ")) << "--mem of the job does not raise the limit of a step";
  EXPECT_TRUE(of_step.advice.at(0).starts_with("The limit of 4G is that of step_0, ")) << of_step.advice.at(0);
}

TEST(RuleReclaimThrash, AdvisesTwiceASmallLimit) {
  R node = job_with(R::event(0, kPages), R::event(0, kPages), R::event(0.02e9, 0.6e9));
  const double limit = 136.0 * 1024 * 1024;
  node.gauge("group.memory", "job", R::always(limit)).gauge("group.memory_limit", "job", R::always(limit));
  EXPECT_EQ(node.findings("mem.reclaim_thrash").at(0).remedy.advice.at(0),
            "Raise the memory limit where it was set for the job, for example to 320M: at least twice 136M, toward "
            "which cached files count.");
}

TEST(RuleReclaimThrash, FindsAJobThatReadsMoreThanFitsFromItsBeginToItsEnd) {
  const auto found = job_with(R::always(kPages), R::always(kPages), R::always(0.6e9)).findings("mem.reclaim_thrash");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 72, 4);
  const auto epochs =
      job_with(R::habit(1e3, 4 * kPages), R::habit(1e3, 4 * kPages), R::habit(0, 0.9e9)).findings("mem.reclaim_thrash");
  ASSERT_EQ(epochs.size(), 1U) << "each epoch reads them again";
  EXPECT_NEAR(epochs[0].impact.seconds.value_or(0), 0.9 * 18, 2);
}

TEST(RuleReclaimThrash, BelievesTheLimitOfVersion1) {
  R node;
  node.counter("memory_stat.workingset_refault_file", "", R::always(kPages))
      .counter("group.memory_limit_hits", "job_7", R::always(200))
      .gauge("group.memory", "job_7", R::always(3.95 * kGiB))
      .gauge("group.memory_limit", "job_7", R::always(4 * kGiB))
      .counter("vmstat.pgscan_direct", "", R::always(0))
      .counter("pressure.io_some", "", R::always(0.5e9));
  EXPECT_EQ(node.findings("mem.reclaim_thrash").size(), 1U);
}

TEST(RuleReclaimThrash, IsSilentOnAFirstReadAndOnStreamedFiles) {
  EXPECT_TRUE(job_with(R::always(10), R::always(0), R::event(0, 0.6e9)).findings("mem.reclaim_thrash").empty());
  // Data that is read once is dropped for the next: many pages are scanned, none of them comes back.
  EXPECT_TRUE(job_with(R::always(10), R::always(kPages), R::always(0.6e9)).findings("mem.reclaim_thrash").empty());
}

TEST(RuleReclaimThrash, FindsThatTheJobDidLessAlthoughHardlyAnythingWaited) {
  R node = job_with(R::event(0, kPages), R::event(0, kPages), R::event(0, 0.02e9));
  EXPECT_TRUE(node.findings("mem.reclaim_thrash").empty());
  node.counter("process.read_by_calls", "rank0", R::event(1e9, 0.8e9));
  const auto found = node.findings("mem.reclaim_thrash");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.2, 0.3);
  EXPECT_FALSE(found[0].impact.at_most);
}

TEST(RuleReclaimThrash, IsSilentWhereReadingAheadHidesIt) {
  EXPECT_TRUE(job_with(R::always(kPages), R::always(kPages), R::always(0.01e9)).findings("mem.reclaim_thrash").empty());
}

TEST(RuleReclaimThrash, IsSilentWhereSomebodyDroppedTheCache) {
  EXPECT_TRUE(job_with(R::always(kPages), R::always(0), R::always(0.6e9)).findings("mem.reclaim_thrash").empty());
}

TEST(RuleReclaimThrash, BlamesTheJobForTheNodesFilesOnlyIfItReadThem) {
  const auto node_wide = [](double read_by_job) {
    R node;
    node.counter("vmstat.workingset_refault_file", "", R::always(kPages))
        .counter("vmstat.pgscan_direct", "", R::always(kPages))
        .counter("pressure.io_some", "", R::always(0.5e9))
        .counter("process.read_bytes", "rank0", R::always(read_by_job));
    return node.findings("mem.reclaim_thrash");
  };
  EXPECT_TRUE(node_wide(1e6).empty());
  const auto found = node_wide(80e6);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

TEST(RuleReclaimThrash, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.reclaim_thrash")), Unavailable);
  R no_pressure;
  no_pressure.counter("memory_stat.workingset_refault_file", "", R::always(kPages))
      .counter("memory_stat.pgscan", "", R::always(kPages));
  EXPECT_THROW(static_cast<void>(no_pressure.findings("mem.reclaim_thrash")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::mem_reclaim_test
