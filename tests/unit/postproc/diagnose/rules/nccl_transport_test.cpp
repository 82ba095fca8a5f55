// nccl.socket_fallback and nccl.single_qp: triggers, and controls that only look like them.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal {
namespace {

using R = RuleRecording;

R training(double megabytes_sent, double megabytes_received) {
  R node;
  node.counter("net.tx_bytes", "eth0", R::always(megabytes_sent * 1e6))
      .counter("net.rx_bytes", "eth0", R::always(megabytes_received * 1e6));
  node.begin = {{"env.SLURM_JOB_NUM_NODES", "2"},
                {"rdma.mlx5_0.1.link_layer", "InfiniBand"},
                {"rdma.mlx5_0.1.rate", "200 Gb/sec (4X HDR)"},
                {"rdma.mlx5_0.1.state", "ACTIVE"}};
  node.end = {{"job.libraries", "cuda nccl"}, {"job.rdma_opened", "none"}};
  return node;
}

void set(Snapshot& snapshot, const std::string& key, const std::string& value) {
  for (auto& [name, old] : snapshot) {
    if (name == key) old = value;
  }
}

TEST(RuleSocketFallback, SeesTrafficThatShouldBeOnTheFabric) {
  const auto found = training(400, 420).findings("nccl.socket_fallback");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_0.1"});
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 400e6, 20e6);
}

TEST(RuleSocketFallback, NamesTheSettingThatAsksForIt) {
  R node = training(400, 420);
  node.begin.emplace_back("env.NCCL_IB_DISABLE", "1");
  const auto found = node.findings("nccl.socket_fallback");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NE(found[0].remedy.user.at(0).find("unset NCCL_IB_DISABLE"), std::string::npos);
}

TEST(RuleSocketFallback, IsSilentWhereTheFabricIsUsedOrThereIsNone) {
  R used = training(400, 420);
  set(used.end, "job.rdma_opened", "0");
  EXPECT_TRUE(used.findings("nccl.socket_fallback").empty());
  R down = training(400, 420);
  set(down.begin, "rdma.mlx5_0.1.state", "DOWN");
  EXPECT_TRUE(down.findings("nccl.socket_fallback").empty());
  R alone = training(400, 420);
  set(alone.begin, "env.SLURM_JOB_NUM_NODES", "1");
  EXPECT_TRUE(alone.findings("nccl.socket_fallback").empty());
  R mpi = training(400, 420);
  set(mpi.end, "job.libraries", "mpi ucx");
  EXPECT_TRUE(mpi.findings("nccl.socket_fallback").empty());
}

TEST(RuleSocketFallback, IsSilentOnARendezvousAndOnReadingData) {
  EXPECT_TRUE(training(0.5, 0.5).findings("nccl.socket_fallback").empty());
  EXPECT_TRUE(training(15, 900).findings("nccl.socket_fallback").empty());
}

TEST(RuleSocketFallback, SaysWhatItCouldNotMeasure) {
  R node = training(400, 420);
  set(node.end, "job.libraries", "");
  EXPECT_THROW(static_cast<void>(node.findings("nccl.socket_fallback")), Unavailable);
}

R verbs(const std::string& rate) {
  R node = training(0.5, 0.5);
  set(node.end, "job.rdma_opened", "0");
  set(node.begin, "rdma.mlx5_0.1.rate", rate);
  return node;
}

TEST(RuleSingleQp, IsAnExperimentOnAFastFabric) {
  const auto found = verbs("400 Gb/sec (4X NDR)").findings("nccl.single_qp");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NE(found[0].sentence.find("xperiment"), std::string::npos);
  EXPECT_NE(found[0].remedy.user.at(0).find("NCCL_IB_QPS_PER_CONNECTION=2"), std::string::npos);
}

TEST(RuleSingleQp, ShowsNoSettingThatItDidNotSee) {
  const auto metrics = [](const Finding& finding) {
    std::string all;
    for (const Evidence& evidence : finding.evidence) all += evidence.metric + " ";
    return all;
  };
  EXPECT_EQ(metrics(verbs("400 Gb/sec (4X NDR)").findings("nccl.single_qp").at(0)), "rdma.mlx5_0.1.rate ");
  R set_to_one = verbs("400 Gb/sec (4X NDR)");
  set_to_one.begin.emplace_back("env.NCCL_IB_QPS_PER_CONNECTION", "1");
  EXPECT_EQ(metrics(set_to_one.findings("nccl.single_qp").at(0)), "NCCL_IB_QPS_PER_CONNECTION rdma.mlx5_0.1.rate ");
}

TEST(RuleSingleQp, IsSilentOnOnePathSeveralPairsAndSockets) {
  EXPECT_TRUE(verbs("25 Gb/sec (1X EDR)").findings("nccl.single_qp").empty());
  R set_already = verbs("400 Gb/sec (4X NDR)");
  set_already.begin.emplace_back("env.NCCL_IB_QPS_PER_CONNECTION", "4");
  EXPECT_TRUE(set_already.findings("nccl.single_qp").empty());
  R sockets = verbs("400 Gb/sec (4X NDR)");
  set(sockets.end, "job.rdma_opened", "none");
  EXPECT_TRUE(sockets.findings("nccl.single_qp").empty());
}

}  // namespace
}  // namespace reveal
