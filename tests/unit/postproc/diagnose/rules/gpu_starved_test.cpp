#include <gtest/gtest.h>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_starved_test {
namespace {

using R = RuleRecording;

/// Works for 6 s and stands still for 4 s, again and again.
bool stands_still(double second) {
  return std::fmod(second, 10) >= 6;
}
R::Course then(double standing, double working) {
  return [=](double second) { return stands_still(second) ? standing : working; };
}
GpuTraining starving(double cpus, double busiest, double io_wait, int gpus = 2) {
  GpuTraining training(gpus);
  training.set("gpu.utilization", then(3, 97));
  training.set("job.cpu_time", then(cpus * 1e9, 3e9)).set("process.cpu_time", then(busiest * 1e9, 1e9));
  training.set("pressure.io_some", then(io_wait * 1e9, 0.02e9));
  return training;
}

TEST(RuleGpuStarvedInput, NamesFullCpusAndTheCost) {
  GpuTraining training = starving(7.9, 1.2, 0.01);
  training.node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
  const auto found = training.findings("gpu.starved_input");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * GpuTraining::kSeconds, 12);
  EXPECT_EQ(found[0].evidence.at(1).metric, "job.cpu_time");
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("#SBATCH --cpus-per-task=16")) << found[0].remedy.user[0];
  EXPECT_TRUE(starving(7.9, 1.2, 0.01).findings("gpu.starved_io").empty());
}

GpuTraining one_process(double bytes) {
  GpuTraining training = starving(1.1, 1.05, 0.01);
  training.node.counter("net.tx_bytes", "eth0", then(bytes, 10e6), "node");
  return training;
}

TEST(RuleGpuStarvedInput, ShowsOneProcessThatMayPrepareAllOfIt) {
  const auto found = one_process(1e6).findings("gpu.starved_input");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].evidence.at(1).metric, "process.cpu_time");
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("DataLoader(num_workers=7")) << found[0].remedy.user[0];
}

TEST(RuleGpuStarvedInput, LeavesAProcessAloneThatPollsForAnotherNode) {
  EXPECT_TRUE(one_process(500e6).findings("gpu.starved_input").empty());
  EXPECT_THROW(static_cast<void>(starving(1.1, 1.05, 0.01).findings("gpu.starved_input")), Unavailable);
}

TEST(RuleGpuStarvedInput, SeesWaitsThatAreShorterThanALook) {
  GpuTraining training;
  training.set("gpu.utilization", R::always(52)).set("job.cpu_time", R::always(7.9e9));
  training.set("pressure.io_some", R::always(0));
  EXPECT_EQ(training.findings("gpu.starved_input").size(), 1U);
}

TEST(RuleGpuStarvedInput, LeavesNarrowCpusToTheirOwnRule) {
  Finding narrow;
  narrow.id = "cpu.affinity_too_narrow";
  EXPECT_TRUE(starving(7.9, 1.2, 0.01).findings("gpu.starved_input", std::vector<Finding>{narrow}).empty());
}

TEST(RuleGpuStarvedIo, NamesStorageWhereCpusAreFree) {
  const auto found = starving(0.6, 0.2, 0.8).findings("gpu.starved_io");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 0.8, 0.1);
  EXPECT_TRUE(starving(0.6, 0.2, 0.8).findings("gpu.starved_input").empty());
}

TEST(RuleGpuStarvedIo, IsSilentOnShortPausesAndWhereNothingIsFull) {
  EXPECT_TRUE(GpuTraining().findings("gpu.starved_io").empty()) << "checkpoints wait for storage, too";
  EXPECT_TRUE(starving(1, 0.3, 0.02).findings("gpu.starved_io").empty());
  EXPECT_TRUE(starving(1, 0.3, 0.02).findings("gpu.starved_input").empty());
}

TEST(RuleGpuStarvedIo, SaysWhatWasNotMeasured) {
  R node(300);
  node.gauge("gpu.utilization", "gpu0", then(3, 97));
  EXPECT_THROW(static_cast<void>(node.findings("gpu.starved_io")), Unavailable);
  EXPECT_THROW(static_cast<void>(node.findings("gpu.starved_input")), Unavailable);
}

GpuTraining exchanging(double standing_use, double standing_power, double standing_bytes, int gpus = 2) {
  GpuTraining training = starving(2, 0.5, 0.01, gpus);
  training.set("gpu.utilization", then(standing_use, 97)).set("gpu.power", then(standing_power, 690));
  training.node.counter("net.tx_bytes", "eth0", then(standing_bytes, 10e6), "node");
  training.node.counter("net.tx_bytes", "lo", R::always(5e9), "node");
  return training;
}

TEST(RuleGpuStarvedComm, NamesGpusThatSpinInCollectives) {
  const auto found = exchanging(100, 250, 2e9).findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * GpuTraining::kSeconds, 12);
  EXPECT_NE(found[0].sentence.find("at the power of waiting GPUs"), std::string::npos) << found[0].sentence;
}

TEST(RuleGpuStarvedComm, NamesGpusThatStandStillWhileOthersSend) {
  const auto found = exchanging(3, 100, 2e9).findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("they were idle"), std::string::npos) << found[0].sentence;
}

TEST(RuleGpuStarvedComm, NeedsSomebodyToWaitFor) {
  EXPECT_TRUE(exchanging(3, 100, 2e9, 1).findings("gpu.starved_comm").empty()) << "one GPU, one node";
  GpuTraining several = exchanging(3, 100, 2e9, 1);
  several.node.begin.emplace_back("env.SLURM_JOB_NUM_NODES", "2");
  EXPECT_EQ(several.findings("gpu.starved_comm").size(), 1U);
}

TEST(RuleGpuStarvedComm, CountsAPortAndItsInterfaceOnceAndTellsNvlinkFromTheFabric) {
  GpuTraining fabric = exchanging(100, 250, 2e9);
  fabric.node.begin.emplace_back("rdma.mlx5_0.1.interface", "eth0");
  fabric.node.counter("ib.xmit_bytes", "mlx5_0:1", then(2e9, 10e6), "node");
  const auto found = fabric.findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 2e9, 0.1e9);
  EXPECT_NE(found[0].sentence.find("left the node "), std::string::npos) << found[0].sentence;
  GpuTraining inside = exchanging(100, 250, 10e6);
  inside.node.counter("nvlink.tx_bytes", "gpu0", then(90e9, 1e9));
  EXPECT_NE(inside.findings("gpu.starved_comm").at(0).sentence.find("went over NVLink"), std::string::npos);
}

TEST(RuleGpuStarvedComm, IsSilentWithoutBurstsAndWhereCpusPrepareTheData) {
  EXPECT_TRUE(exchanging(100, 250, 10e6).findings("gpu.starved_comm").empty()) << "a phase of less power";
  GpuTraining preparing = exchanging(3, 100, 2e9);
  preparing.set("job.cpu_time", then(7.9e9, 3e9));
  EXPECT_TRUE(preparing.findings("gpu.starved_comm").empty());
  EXPECT_THROW(static_cast<void>(starving(2, 0.5, 0.01).findings("gpu.starved_comm")), Unavailable);
}

GpuTraining small_kernels(double power, double memory_use, double busiest) {
  GpuTraining training;
  training.set("gpu.utilization", GpuTraining::while_it_works(70, 2));
  training.set("gpu.power", GpuTraining::while_it_works(power, 90));
  training.set("gpu.memory_utilization", GpuTraining::while_it_works(memory_use, 0));
  training.set("process.cpu_time", R::always(busiest * 1e9));
  return training;
}

TEST(RuleGpuSmallKernels, IsAPossibilityWhereBusyGpusDoLittleAndOneCpuIsFull) {
  const auto found = small_kernels(180, 5, 1.02).findings("gpu.small_kernels");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

TEST(RuleGpuSmallKernels, IsSilentOnWorkBoundByMemoryOnHardWorkAndOnFreeCpus) {
  EXPECT_TRUE(small_kernels(180, 60, 1.02).findings("gpu.small_kernels").empty());
  EXPECT_TRUE(small_kernels(600, 5, 1.02).findings("gpu.small_kernels").empty());
  EXPECT_TRUE(small_kernels(180, 5, 0.4).findings("gpu.small_kernels").empty());
}

}  // namespace
}  // namespace reveal::tests::gpu_starved_test
