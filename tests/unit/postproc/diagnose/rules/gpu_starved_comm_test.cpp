#include <gtest/gtest.h>

#include "gpu_starving.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_starved_comm_test {
namespace {

using R = RuleRecording;

GpuTraining exchanging(double standing_use, double standing_power, double standing_bytes, int gpus = 2,
                       double received = 1) {
  GpuTraining training = starving(2, 0.5, 0.01, gpus);
  training.set("gpu.utilization", then(standing_use, 97)).set("gpu.power", then(standing_power, 690));
  training.node.counter("net.tx_bytes", "eth0", then(standing_bytes, 10e6), "node");
  training.node.counter("net.rx_bytes", "eth0", then(received * standing_bytes, 10e6), "node");
  training.node.counter("net.tx_bytes", "lo", R::always(5e9), "node");
  return training;
}

TEST(RuleGpuStarvedComm, NamesGpusThatSpinInCollectives) {
  const auto found = exchanging(100, 250, 2e9).findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The job's GPUs on node n2 waited for each other for 120 s of 5 min: they were busy, but at the power of "
            "waiting GPUs, "
            "while 1.84 GiB/s left the node (otherwise 9.44 MiB/s).");
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * GpuTraining::kSeconds, 12);
}

TEST(RuleGpuStarvedComm, NamesGpusThatStandStillWhileOthersSend) {
  const auto found = exchanging(3, 100, 2e9).findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("they were idle"), std::string::npos) << found[0].sentence;
}

TEST(RuleGpuStarvedComm, TakesNoCheckpointForACollective) {
  EXPECT_TRUE(exchanging(3, 100, 2e9, 2, 0.01).findings("gpu.starved_comm").empty()) << "only sent";
  EXPECT_EQ(exchanging(3, 100, 2e9, 2, 0.5).findings("gpu.starved_comm").size(), 1U);
}

TEST(RuleGpuStarvedComm, NeedsSomebodyToWaitFor) {
  EXPECT_TRUE(exchanging(3, 100, 2e9, 1).findings("gpu.starved_comm").empty()) << "one GPU, one node";
  GpuTraining several = exchanging(3, 100, 2e9, 1);
  several.node.begin.emplace_back("env.SLURM_JOB_NUM_NODES", "2");
  const auto found = several.findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.starts_with("The job's GPU on node n2 waited for those of other nodes for "))
      << found[0].sentence;
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

TEST(RuleGpuStarvedComm, CountsTheBytesOfABondAndOfItsRdmaDeviceOnce) {
  GpuTraining bonded = exchanging(100, 250, 1e9);  // over eth0; as much goes by RDMA
  bonded.node.begin.emplace_back("net.eth0.numa_node", "0");
  bonded.node.begin.emplace_back("rdma.mlx5_bond_0.1.interface", "bond0");
  for (const char* metric : {"net.tx_bytes", "net.rx_bytes"}) {
    bonded.node.counter(metric, "bond0", then(1e9, 10e6), "node");
    bonded.node.counter(metric, "ns2/eth0", then(0.5e9, 10e6), "node");
  }
  for (const char* metric : {"ib.xmit_bytes", "ib.rcv_bytes"}) {
    bonded.node.counter(metric, "mlx5_bond_0:1", then(2e9, 20e6), "node");
  }
  const auto found = bonded.findings("gpu.starved_comm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 2.5e9, 0.1e9);
}

TEST(RuleGpuStarvedComm, IsSilentWithoutBurstsAndWhereCpusPrepareTheData) {
  EXPECT_TRUE(exchanging(100, 250, 10e6).findings("gpu.starved_comm").empty()) << "a phase of less power";
  GpuTraining preparing = exchanging(3, 100, 2e9);
  preparing.set("job.cpu_time", then(7.9e9, 3e9));
  EXPECT_TRUE(preparing.findings("gpu.starved_comm").empty());
  EXPECT_THROW(static_cast<void>(starving(2, 0.5, 0.01).findings("gpu.starved_comm")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::gpu_starved_comm_test
