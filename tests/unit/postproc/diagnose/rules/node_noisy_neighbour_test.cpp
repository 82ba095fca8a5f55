#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::node_noisy_neighbour_test {
namespace {

using R = RuleRecording;

/// From 50 s to 65 s: the job's waiting for io and its computing, the disk's busy time and bytes, and the job's part of
/// these bytes.
struct DiskCourse {
  double wait = 0.6;
  double cpus = 0.7;
  double busy = 0.95;
  double moved = 200e6;
  double own_reads = 5e6;
  double own_writes = 1e6;
  double started = 0.5;  // processes, per second
};

R disk(const DiskCourse& inside) {
  R node;
  node.counter("pressure.io_some", "", R::event(0.01e9, inside.wait * 1e9), "node");
  node.counter("job.cpu_time", "", R::event(1.9e9, inside.cpus * 1e9));
  node.counter("disk.io_time", "vda", R::event(0.02e9, inside.busy * 1e9), "node");
  node.counter("disk.read_bytes", "vda", R::event(8e6, inside.own_reads), "node");
  node.counter("disk.write_bytes", "vda", R::event(1e6, inside.moved - inside.own_reads), "node");
  node.counter("process.read_bytes", "rank0", R::event(8e6, inside.own_reads), "rank");
  node.counter("process.write_bytes", "rank0", R::event(0, inside.own_writes), "rank");
  node.counter("cpu.forks", "", R::always(inside.started), "node");
  return node;
}

std::vector<Finding> of(const R& node, std::span<const Finding> before = {}) {
  return node.findings("node.noisy_neighbour", before);
}

TEST(RuleNeighbour, SaysHowMuchOfADiskOthersTook) {
  const auto found = of(disk({}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].subsystem, Subsystem::storage);
  EXPECT_TRUE(found[0].sentence.starts_with("Other processes on n2 kept disk vda busy 9")) << found[0].sentence;
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 1.2 / 1.9, 0.5);
  R node = disk({});
  node.end = {{"node.other_jobs", "seen"}};
  EXPECT_EQ(of(node).at(0).confidence, Confidence::likely);
}

TEST(RuleNeighbour, LeavesTheJobsOwnIoAlone) {
  EXPECT_TRUE(of(disk({.own_writes = 150e6})).empty()) << "its checkpoint";
  EXPECT_TRUE(of(disk({.own_reads = 150e6})).empty()) << "its data loader";
  EXPECT_TRUE(of(disk({.busy = 0.3})).empty()) << "a file server, not this disk";
  EXPECT_TRUE(of(disk({.cpus = 1.88})).empty()) << "it cost nothing";
  EXPECT_TRUE(of(disk({.wait = 0.02})).empty());
}

TEST(RuleNeighbour, CountsProcessesOfAMomentOnlyInAControlGroup) {
  R node = disk({.started = 50});
  EXPECT_TRUE(of(node).empty()) << "some of them may be the job's";
  node.counter("cgroup.read_bytes", "", R::event(8e6, 5e6)).counter("cgroup.write_bytes", "", R::event(0, 1e6));
  EXPECT_EQ(of(node).size(), 1U);
}

TEST(RuleNeighbour, AccusesNobodyWhereSomeProcessesOfTheJobAreNotMeasured) {
  R node = disk({});
  node.gauge("job.processes", "", R::always(64));
  EXPECT_TRUE(of(node).empty());
  node.counter("cgroup.read_bytes", "", R::event(8e6, 5e6)).counter("cgroup.write_bytes", "", R::event(0, 1e6));
  EXPECT_EQ(of(node).size(), 1U);
  node.begin = {{"job.cgroup.blkio", "/slurm/job_7"}};
  EXPECT_TRUE(of(node).empty()) << "a control group of version 1 leaves out writes through the page cache";
}

TEST(RuleNeighbour, RemembersWhatTheJobWroteAMinuteBefore) {
  R node = disk({});
  node.counter(
      "process.write_bytes", "rank1", [](double second) { return second >= 10 && second < 40 ? 100e6 : 0; }, "rank");
  EXPECT_TRUE(of(node).empty()) << "its pages reach the disk long after it wrote them";
}

TEST(RuleNeighbour, LeavesHabitsAndWhatAnotherRuleTold) {
  R node;
  node.counter("pressure.io_some", "", R::habit(0.01e9, 0.6e9), "node");
  node.counter("job.cpu_time", "", R::habit(1.9e9, 0.7e9));
  node.counter("disk.io_time", "vda", R::habit(0.02e9, 0.95e9), "node");
  node.counter("disk.read_bytes", "vda", R::habit(1e6, 200e6), "node");
  node.counter("disk.write_bytes", "vda", R::always(0), "node");
  node.counter("process.read_bytes", "rank0", R::always(0), "rank");
  node.counter("process.write_bytes", "rank0", R::always(0), "rank");
  node.counter("cpu.forks", "", R::always(0), "node");
  EXPECT_TRUE(of(node).empty());
  const R flood = disk({});
  std::vector<Finding> before(1);
  before[0].subsystem = Subsystem::storage;
  before[0].intervals = of(flood).at(0).intervals;
  EXPECT_TRUE(of(flood, before).empty());
}

TEST(RuleNeighbour, AccusesNobodyWhereTheJobsOwnIoIsNotKnown) {
  R node;
  node.counter("pressure.io_some", "", R::event(0.01e9, 0.6e9), "node");
  node.counter("job.cpu_time", "", R::event(1.9e9, 0.7e9));
  node.counter("disk.io_time", "vda", R::event(0.02e9, 0.95e9), "node");
  node.counter("disk.read_bytes", "vda", R::event(1e6, 200e6), "node");
  node.counter("disk.write_bytes", "vda", R::always(0), "node");
  node.counter("cpu.forks", "", R::always(0), "node");
  EXPECT_TRUE(of(node).empty());
}

/// Memory in GiB from 50 s to 65 s, of 64.
R memory(double available, double own) {
  constexpr double kGiB = 1 << 30;
  R node;
  node.counter("pressure.memory_some", "", R::event(0, 0.5e9), "node");
  node.counter("job.cpu_time", "", R::event(1.9e9, 0.9e9));
  node.gauge("mem.total", "", R::always(64 * kGiB), "node");
  node.gauge("mem.available", "", R::event(40 * kGiB, available * kGiB), "node");
  node.gauge("cgroup.memory_current", "", R::event(10 * kGiB, own * kGiB));
  node.counter("pressure.io_some", "", R::always(0), "node");
  return node;
}

TEST(RuleNeighbour, SaysWhoHeldTheMemory) {
  const auto found = of(memory(1, 10));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].subsystem, Subsystem::memory);
  EXPECT_TRUE(found[0].sentence.starts_with("Other processes on n2 used 53 GiB of its 64 GiB of memory"))
      << found[0].sentence;
  EXPECT_TRUE(of(memory(1, 50)).empty()) << "the job itself fills it";
  EXPECT_TRUE(of(memory(20, 10)).empty()) << "plenty is left";
}

TEST(RuleNeighbour, TakesNoMemoryOfTheJobForThatOfOthers) {
  R node = memory(1, 10);
  for (Channel& channel : node.telemetry.channels) {
    if (channel.metric == "cgroup.memory_current") channel.metric = "process.rss";
  }
  EXPECT_EQ(of(node).size(), 1U);
  node.gauge("job.processes", "", R::always(64));
  EXPECT_TRUE(of(node).empty()) << "16 of 64 ranks are measured";
}

TEST(RuleNeighbour, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(of(R())), Unavailable);
  R node;
  node.counter("job.cpu_time", "", R::always(1e9));
  EXPECT_THROW(static_cast<void>(of(node)), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::node_noisy_neighbour_test
