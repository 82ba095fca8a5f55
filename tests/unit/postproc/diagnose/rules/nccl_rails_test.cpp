// nccl.wrong_hca_or_unused_rail on jobs that leave fast ports unused, and on jobs and nodes of which that is expected.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/peers/job_rule.h"
#include "rule_recording.h"
#include "rules_tried.h"

namespace reveal::tests::nccl_rails_test {
namespace {

using R = RuleRecording;
constexpr const char* kRule = "nccl.wrong_hca_or_unused_rail";

struct Port {
  double megabytes = 0;  // per second, in each direction
  const char* rate = "400 Gb/sec (4X NDR)";
};

/// A training of two nodes that uses NCCL over verbs.
R node_with(const std::vector<Port>& ports, const char* gpus = "0-3", const std::string& filter = "") {
  R node;
  node.begin = {{"env.SLURM_JOB_NUM_NODES", "2"}, {"job.cpus_allowed", "0-7"}};
  if (!filter.empty()) node.begin.emplace_back("env.NCCL_IB_HCA", filter);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string device = "mlx5_" + std::to_string(i);
    node.counter("ib.xmit_bytes", device + ":1", R::always(ports[i].megabytes * 1e6), "node");
    node.counter("ib.rcv_bytes", device + ":1", R::always(ports[i].megabytes * 1e6), "node");
    node.begin.emplace_back("rdma." + device + ".1.link_layer", "InfiniBand");
    node.begin.emplace_back("rdma." + device + ".1.rate", ports[i].rate);
    node.begin.emplace_back("rdma." + device + ".1.state", "ACTIVE");
  }
  node.end = {{"job.libraries", "cuda nccl"}, {"job.rdma_opened", "0-3"}};
  if (*gpus != '\0') node.end.emplace_back("job.gpus_opened", gpus);
  return node;
}

constexpr Port kBusy{5000};
constexpr Port kIdle{0.01};

TEST(RuleNcclRails, NamesThePortsThatASettingLeavesOut) {
  const auto found = node_with({kBusy, kIdle, kIdle, kIdle}, "0-3", "mlx5_0").findings(kRule);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "3 of the 4 fastest RDMA ports of n2 carried almost no traffic (mlx5_1:1, mlx5_2:1, mlx5_3:1), while "
            "mlx5_0:1 moved 9.22 GiB/s. NCCL_IB_HCA is mlx5_0 in this job.");
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"mlx5_1:1", "mlx5_2:1", "mlx5_3:1"}));
  EXPECT_EQ(found[0].remedy.user.at(0), "unset NCCL_IB_HCA   # it is mlx5_0 in this job");
  EXPECT_EQ(found[0].remedy.user.at(1).substr(0, 57), "export NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1  ");
}

TEST(RuleNcclRails, ReadsTheSettingAsNcclDoes) {
  const auto by_setting = [](const char* filter) {
    const auto found = node_with({kBusy, kIdle}, "0-3", filter).findings(kRule);
    return found.size() == 1 && found[0].confidence == Confidence::likely;
  };
  EXPECT_TRUE(by_setting("=mlx5_0"));
  EXPECT_TRUE(by_setting("^mlx5_1:1"));
  EXPECT_TRUE(by_setting("mlx5_0:1,mlx5_7"));
  EXPECT_TRUE(by_setting("mlx5_1:2")) << "another port of it";
  EXPECT_FALSE(by_setting("mlx5")) << "a prefix of both";
  EXPECT_FALSE(by_setting("^mlx5_2"));
  EXPECT_FALSE(by_setting("=mlx5_0,mlx5_1"));
}

TEST(RuleNcclRails, IsAnExperimentWhereNoSettingExplainsIt) {
  const auto found = node_with({kBusy, kBusy, kBusy, kIdle}).findings(kRule);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info) << "it may be reserved for storage";
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

TEST(RuleNcclRails, NamesASlowPortThatCarriesItAll) {
  const auto found = node_with({kIdle, kIdle, {900, "25 Gb/sec (1X EDR)"}}).findings(kRule);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[0].sentence.find("goes over mlx5_2:1 (25 Gb/s), while mlx5_0:1, mlx5_1:1 (400 Gb/s) are idle"),
            std::string::npos)
      << found[0].sentence;
}

TEST(RuleNcclRails, IsSilentWhereIdlePortsAreExpected) {
  const auto silent = [](const R& node) { return node.findings(kRule).empty(); };
  EXPECT_TRUE(silent(node_with({kBusy, kBusy, kBusy, kBusy})));
  EXPECT_TRUE(silent(node_with({kBusy, {3000}, kBusy, kBusy}))) << "uneven, but used";
  EXPECT_TRUE(silent(node_with({kBusy, kIdle, kIdle, kIdle}, "0"))) << "one GPU uses the port near to it";
  EXPECT_TRUE(silent(node_with({kBusy, kBusy, {0.01, "25 Gb/sec (1X EDR)"}}))) << "a port for management";
  EXPECT_TRUE(silent(node_with({{1}, kIdle}))) << "a rendezvous";
  EXPECT_TRUE(silent(node_with({kBusy}))) << "one port";
  R alone = node_with({kBusy, kIdle});
  alone.begin[0].second = "1";
  EXPECT_TRUE(silent(alone));
  R sockets = node_with({kBusy, kIdle});
  sockets.end[1].second = "none";
  EXPECT_TRUE(silent(sockets));
  R mpi = node_with({kBusy, kIdle});
  mpi.end[0].second = "mpi ucx";
  EXPECT_TRUE(silent(mpi));
}

TEST(RuleNcclRails, ExpectsNoTrafficOfAPortFarFromAllGpus) {
  const auto with_bridges = [](const char* of_third) {
    R node = node_with({kBusy, kBusy, kIdle});
    for (const char* gpu : {"0", "1", "2", "3"}) {
      const std::string key = std::string("gpu.gpu") + gpu;
      const std::string address = std::string("0000:4") + gpu + ":00.0";
      node.end.emplace_back(key + ".minor", gpu);
      node.end.emplace_back(key + ".address", address);
      node.begin.emplace_back("pci." + address + ".bridges", *gpu < '2' ? "0000:40:01.1 0000:41:00.0" : "0000:c0:01.1");
    }
    for (const auto& [card, bridges] :
         {std::pair{"0", "0000:40:01.1 0000:41:00.0"}, std::pair{"1", "0000:c0:01.1"}, std::pair{"2", of_third}}) {
      const std::string key = std::string("pci.0000:e") + card + ":00.0";
      node.begin.emplace_back(key + ".bridges", bridges);
      node.begin.emplace_back(key + ".device", std::string("0000:e0:00.0 infiniband mlx5_") + card);
    }
    return node;
  };
  EXPECT_TRUE(with_bridges("0000:e0:03.1").findings(kRule).empty()) << "behind the host bridge: for storage";
  const auto found = with_bridges("0000:40:01.1 0000:41:00.0").findings(kRule);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_2:1"});
  R unknown = with_bridges("0000:e0:03.1");
  std::erase_if(unknown.end, [](const auto& fact) { return fact.first == "gpu.gpu3.minor"; });
  EXPECT_EQ(unknown.findings(kRule).size(), 1U) << "the place of one GPU is not known";
}

TEST(RuleNcclRails, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(node_with({kBusy, kIdle}, "").findings(kRule)), Unavailable);
  R soft = node_with({kBusy, kIdle});
  soft.telemetry.channels[0].metric = "another";
  EXPECT_THROW(static_cast<void>(soft.findings(kRule)), Unavailable) << "a device without link counters";
}

std::vector<Finding> among(const std::vector<std::vector<double>>& megabytes) {
  std::vector<NodeProfile> profiles;
  for (const std::vector<double>& ports : megabytes) {
    NodeProfile profile;
    profile.node = "n" + std::to_string(profiles.size() + 1);
    for (const char* metric : {"ib.rcv_bytes", "ib.xmit_bytes"}) {
      for (std::size_t i = 0; i < ports.size(); ++i) {
        const std::string name = std::string(metric) + "/mlx5_" + std::to_string(i) + ":1";
        if (ports[i] == 0) profile.zeros.push_back(name);
        if (ports[i] > 0) profile.channels.push_back({.name = name, .unit = "bytes/s", .mean = ports[i] * 1e6});
      }
    }
    profiles.push_back(std::move(profile));
  }
  std::vector<const NodeProfile*> nodes;
  for (const NodeProfile& profile : profiles) nodes.push_back(&profile);
  return tried(kJobRules, run_job_rules({.comparison = {}, .nodes = nodes, .job = {1, 2}}));
}

TEST(RuleNcclRails, NamesTheNodeThatLeavesAPortUnusedWhichTheOthersUse) {
  const auto found = among({{900, 900}, {900, 900}, {1700, 0}, {900, 900}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].nodes, std::vector<std::string>{"n3"});
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_1:1"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].evidence.at(0).expected, 1800e6);
}

TEST(RuleNcclRails, IsSilentOnNodesThatAreAlikeOrDoSomethingElse) {
  EXPECT_TRUE(among({{900, 0}, {900, 0}, {900, 0}}).empty()) << "a port for storage";
  EXPECT_TRUE(among({{900, 900}, {900, 900}, {1, 0}}).empty()) << "a node that only drives the others";
  EXPECT_TRUE(among({{900, 900}, {1700, 0}}).empty()) << "of two nodes, either may be right";
  EXPECT_TRUE(among({{1, 1}, {1, 1}, {2, 0}}).empty()) << "next to no traffic";
}

}  // namespace
}  // namespace reveal::tests::nccl_rails_test
