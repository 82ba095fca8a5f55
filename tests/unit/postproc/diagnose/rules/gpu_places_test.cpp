#include <gtest/gtest.h>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_places_test {
namespace {

using R = RuleRecording;

/// GPU 1 is on NUMA node 1 with cpus 4 to 7.
GpuTraining on_cpu(double cpu, double cpus_allowed, const std::string& node_of_gpu = "1") {
  GpuTraining training;
  training.fact("numa_node", "0", 0).fact("numa_node", node_of_gpu, 1);
  training.node.begin.insert(training.node.begin.end(), {{"numa.node0.cpus", "0-3"},
                                                         {"numa.node1.cpus", "4-7"},
                                                         {"numa.node0.distance", "10 21"},
                                                         {"numa.node1.distance", "21 10"}});
  training.node.gauge("process.gpu_memory", "rank1/gpu1", R::always(70e9), "rank");
  training.node.gauge("process.last_cpu", "rank1", R::always(cpu), "rank");
  training.node.gauge("process.cpus_allowed", "rank1", R::always(cpus_allowed), "rank");
  return training;
}

TEST(RuleCpuGpu, NamesAProcessThatIsBoundToTheOtherNode) {
  GpuTraining training = on_cpu(2, 4);
  const auto found = training.findings("numa.cpu_gpu_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "rank1 uses gpu1 (0000:81:00.0) of n2 from another NUMA node: the GPU is on node 1 (cpus 4-7), and rank1 "
            "ran on other nodes for 100 % of the time it worked, because its cpu mask excludes that node.");
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank1/gpu1"});
}

TEST(RuleCpuGpu, IsANoticeWhereItMayRunElsewhereAndSilentWhereItIsNear) {
  EXPECT_EQ(on_cpu(2, 8).findings("numa.cpu_gpu_mismatch").at(0).severity, Severity::notice);
  EXPECT_TRUE(on_cpu(5, 4).findings("numa.cpu_gpu_mismatch").empty());
  EXPECT_THROW(static_cast<void>(on_cpu(2, 4, "-1").findings("numa.cpu_gpu_mismatch")), Unavailable);
  GpuTraining all = on_cpu(2, 4);
  all.node.gauge("process.gpu_memory", "rank1/gpu0", R::always(70e9), "rank");
  EXPECT_TRUE(all.findings("numa.cpu_gpu_mismatch").empty()) << "one process for both cannot be near both";
}

RuleRecording over_the_fabric(const std::string& module, const std::string& peer_memory) {
  RuleRecording node;
  node.begin = {{"gpu_driver.kernel_module", module}, {"gpu_driver.peer_memory", peer_memory},
                {"job.libraries", "nccl torch_cuda"}, {"rdma.mlx5_0.type", "MT4129"},
                {"rdma.ibp24s0.type", "MT4129"},      {"env.SLURM_JOB_NUM_NODES", "2"}};
  node.end = {{"job.rdma_opened", "0-1"}};
  return node;
}

TEST(RuleGdr, NamesTheModuleThatIsMissing) {
  const auto found = over_the_fabric("proprietary", "not loaded").findings("nccl.gdr_unavailable");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "NCCL cannot move data from the GPUs of n2 directly to the fabric: nvidia_peermem is not loaded, and the "
            "driver's kernel module is not the open one. Data between nodes then goes through host memory.");
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("modprobe nvidia_peermem"));
}

TEST(RuleGdr, IsSilentOnCardsOfOtherMakers) {
  RuleRecording elastic = over_the_fabric("proprietary", "not loaded");
  elastic.begin.emplace_back("rdma.rdmap16s27.numa_node", "0");
  EXPECT_TRUE(elastic.findings("nccl.gdr_unavailable").empty());
}

TEST(RuleGdr, IsSilentWithAWayForTheFabricAndWithoutOneToUse) {
  EXPECT_TRUE(over_the_fabric("proprietary", "loaded").findings("nccl.gdr_unavailable").empty());
  EXPECT_TRUE(over_the_fabric("open", "not loaded").findings("nccl.gdr_unavailable").empty());
  RuleRecording sockets = over_the_fabric("proprietary", "not loaded");
  sockets.end = {{"job.rdma_opened", "none"}};
  EXPECT_TRUE(sockets.findings("nccl.gdr_unavailable").empty());
  sockets.begin.clear();
  EXPECT_THROW(static_cast<void>(sockets.findings("nccl.gdr_unavailable")), Unavailable);
}

/// The GPUs are on NUMA node 1, as is mlx5_1; mlx5_0 is on node 0.
GpuTraining sending(double far, double near, const std::string& rate_of_near = "400 Gb/sec (4X NDR)") {
  GpuTraining training;
  training.fact("numa_node", "1");
  training.node.begin.insert(training.node.begin.end(), {{"rdma.mlx5_0.numa_node", "0"},
                                                         {"rdma.mlx5_0.1.state", "ACTIVE"},
                                                         {"rdma.mlx5_0.1.rate", "400 Gb/sec (4X NDR)"},
                                                         {"rdma.mlx5_1.numa_node", "1"},
                                                         {"rdma.mlx5_1.1.state", "ACTIVE"},
                                                         {"rdma.mlx5_1.1.rate", rate_of_near}});
  training.node.counter("ib.xmit_bytes", "mlx5_0:1", R::always(far), "node");
  training.node.counter("ib.xmit_bytes", "mlx5_1:1", R::always(near), "node");
  return training;
}

TEST(RuleNicGpu, NamesTheFarAndTheNearPort) {
  const auto found = sending(2e9, 1e6).findings("numa.nic_gpu_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The traffic of n2 left through mlx5_0 on NUMA node 0 (1.84 GiB/s), but the job's GPUs are on node 1, "
            "whose mlx5_1 carried 967 KiB/s.");
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("export NCCL_IB_HCA==mlx5_1")) << found[0].remedy.user[0];
  GpuTraining asked_for = sending(2e9, 1e6);
  asked_for.node.begin.emplace_back("env.NCCL_IB_HCA", "mlx5_0");
  EXPECT_EQ(asked_for.findings("numa.nic_gpu_mismatch").at(0).confidence, Confidence::likely);
}

TEST(RuleNicGpu, ListsAllNearPortsOfThatRate) {
  GpuTraining training = sending(2e9, 1e6);
  for (const auto& [device, rate] : {std::pair{"mlx5_2", "400 Gb/sec (4X NDR)"}, std::pair{"mlx5_3", "25 Gb/sec"}}) {
    const std::string key = std::string("rdma.") + device;
    training.node.begin.emplace_back(key + ".numa_node", "1");
    training.node.begin.emplace_back(key + ".1.state", "ACTIVE");
    training.node.begin.emplace_back(key + ".1.rate", rate);
  }
  const auto found = training.findings("numa.nic_gpu_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("export NCCL_IB_HCA==mlx5_1,mlx5_2   #"))
      << found[0].remedy.user[0];
}

/// All on one NUMA node: the GPUs are on the PCI switch below port 0000:c0:01.1, as is mlx5_1; mlx5_0 is below another.
GpuTraining sending_from_a_switch(double far, double near) {
  GpuTraining training = sending(far, near);
  for (auto& [key, value] : training.node.begin) {
    if (key == "rdma.mlx5_0.numa_node") value = "1";
  }
  training.node.begin.insert(training.node.begin.end(),
                             {{"pci.0000:80:00.0.bridges", "0000:c0:01.1 0000:c1:00.0 0000:c2:00.0"},
                              {"pci.0000:81:00.0.bridges", "0000:c0:01.1 0000:c1:00.0 0000:c2:01.0"},
                              {"pci.0000:a0:00.0.bridges", "0000:c0:03.1"},
                              {"pci.0000:a0:00.0.device", "0000:a0:00.0 net ib0, infiniband mlx5_0"},
                              {"pci.0000:c4:00.0.bridges", "0000:c0:01.1 0000:c1:00.0 0000:c2:02.0"},
                              {"pci.0000:c4:00.0.device", "0000:c4:00.0 infiniband mlx5_1"}});
  return training;
}

TEST(RuleNicGpu, FindsACardBehindTheHostBridgeBesideOneOnTheSwitch) {
  const auto found = sending_from_a_switch(2e9, 1e6).findings("numa.nic_gpu_mismatch");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
  EXPECT_EQ(
      found[0].sentence,
      "The traffic of n2 left through mlx5_0 behind the host bridge (1.84 GiB/s), but mlx5_1 is on the PCI switch of "
      "a GPU that the job used, and carried 967 KiB/s.");
  EXPECT_EQ(found[0].impact.how, "not known: the cost of the path through the host bridge was not measured");
  EXPECT_TRUE(sending_from_a_switch(1e6, 2e9).findings("numa.nic_gpu_mismatch").empty()) << "the near one works";
  EXPECT_TRUE(sending_from_a_switch(2e9, 2e9).findings("numa.nic_gpu_mismatch").empty());
}

TEST(RuleNicGpu, DoesNotJudgeTheSwitchWhereOtherTrafficIsPossible) {
  GpuTraining alone = sending_from_a_switch(2e9, 1e6);
  alone.node.begin.emplace_back("env.SLURM_JOB_NUM_NODES", "1");
  EXPECT_TRUE(alone.findings("numa.nic_gpu_mismatch").empty());
  GpuTraining sockets = sending_from_a_switch(2e9, 1e6);
  sockets.node.end.emplace_back("job.rdma_opened", "none");
  EXPECT_TRUE(sockets.findings("numa.nic_gpu_mismatch").empty());
  GpuTraining unknown = sending_from_a_switch(2e9, 1e6);
  std::erase_if(unknown.node.begin, [](const auto& fact) { return fact.first == "pci.0000:a0:00.0.bridges"; });
  EXPECT_TRUE(unknown.findings("numa.nic_gpu_mismatch").empty()) << "the card may be on the switch, too";
}

TEST(RuleNicGpu, IsSilentWhereTheNearPortWorksIsSlowOrThereIsNoTraffic) {
  EXPECT_TRUE(sending(2e9, 2e9).findings("numa.nic_gpu_mismatch").empty());
  EXPECT_TRUE(sending(2e9, 1e6, "25 Gb/sec (1X EDR)").findings("numa.nic_gpu_mismatch").empty());
  EXPECT_TRUE(sending(1e6, 0).findings("numa.nic_gpu_mismatch").empty());
  EXPECT_THROW(static_cast<void>(GpuTraining().findings("numa.nic_gpu_mismatch")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::gpu_places_test
