// nccl.socket_fallback and nccl.single_qp: triggers, and controls that only look like them.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "rule_recording.h"

namespace reveal::tests::nccl_transport_test {
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
  node.end = {{"job.libraries", "cuda nccl"}, {"job.rdma_opened", "none"}, {"job.gpus_opened", "0 1"}};
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
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_0:1"});
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 400e6, 20e6);
}

TEST(RuleSocketFallback, CountsTheBytesOfABondOnce) {
  R node = training(400, 420);
  node.counter("net.tx_bytes", "bond0", R::always(400e6)).counter("net.rx_bytes", "bond0", R::always(420e6));
  node.begin.emplace_back("net.bond0.cards", "eth0 eth1");
  const auto found = node.findings("nccl.socket_fallback");
  ASSERT_EQ(found.size(), 1U);
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

TEST(RuleSocketFallback, NamesNcclOnlyAsPossibleWhereNoGpuWasOpened) {
  R node = training(400, 420);
  set(node.end, "job.gpus_opened", "none");
  const auto found = node.findings("nccl.socket_fallback");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_TRUE(found[0].sentence.starts_with("The job communicated over TCP sockets on ")) << found[0].sentence;
}

TEST(RuleSocketFallback, ShowsTheBytesThatCallsOfNcclWereToMove) {
  const auto with_calls = [](const std::string& instance, const std::string& gpus) {
    R node = training(400, 420);
    set(node.end, "job.gpus_opened", gpus);
    if (!instance.empty()) node.counter("stack.bytes", instance, R::always(900e6), "rank");
    return node.findings("nccl.socket_fallback").at(0);
  };
  const Finding counted = with_calls("rank0/ncclAllReduce", "none");
  ASSERT_EQ(counted.evidence.size(), 3U);
  EXPECT_EQ(counted.evidence[2].metric, "stack.bytes");
  EXPECT_EQ(counted.evidence[2].instance, "rank0/ncclAllReduce");
  EXPECT_NEAR(counted.evidence[2].observed.value_or(0), 900e6, 20e6);
  EXPECT_FALSE(counted.evidence[2].expected.has_value());
  EXPECT_EQ(counted.severity, Severity::warning) << "calls were counted: it is NCCL that communicates";
  EXPECT_TRUE(counted.sentence.starts_with("NCCL ran over TCP sockets on ")) << counted.sentence;
  EXPECT_EQ(with_calls("", "0 1").evidence.size(), 2U) << "not measured";
  for (const char* other : {"rank0/cudaMemcpy", "rank0/gloo.allreduce", "rank0/ncclCommInitRank"}) {
    EXPECT_EQ(with_calls(other, "0 1").evidence.size(), 2U) << other;
  }
}

TEST(RuleSocketFallback, AccusesNoServerOnOneNode) {
  R server = training(400, 420);
  std::erase_if(server.begin, [](const auto& fact) { return fact.first == "env.SLURM_JOB_NUM_NODES"; });
  server.begin.emplace_back("address.eth0", "10.0.0.2");
  EXPECT_THROW(static_cast<void>(server.findings("nccl.socket_fallback")), Unavailable);
  for (const char* own : {"127.0.0.1", "10.0.0.2"}) {
    server.counter("tcp.peer.segments_sent", own, R::always(900), "node");
    EXPECT_THROW(static_cast<void>(server.findings("nccl.socket_fallback")), Unavailable) << own;
  }
  server.counter("tcp.peer.segments_sent", "10.0.0.1", R::always(900), "node");
  const auto found = server.findings("nccl.socket_fallback");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice) << "a client is such a peer, too";
  EXPECT_EQ(found[0].confidence, Confidence::possible);
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
  R within_node = training(0.5, 0.5);
  within_node.counter("net.tx_bytes", "ns2/lo", R::always(400e6)).counter("net.rx_bytes", "ns2/lo", R::always(400e6));
  EXPECT_TRUE(within_node.findings("nccl.socket_fallback").empty()) << "ranks of one node";
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
  EXPECT_EQ(
      found[0].sentence,
      "NCCL_IB_QPS_PER_CONNECTION is not set in the job's environment; NCCL's default is one queue pair per connection "
      "on mlx5_0:1 (400 Gb/s); the queue pairs were not counted. Its traffic was not measured. If the fabric has "
      "several paths, two or four may use them better. This is a proposal to test, not a fault: measure it.");
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NE(found[0].remedy.user.at(0).find("NCCL_IB_QPS_PER_CONNECTION=2"), std::string::npos);
}

/// Bytes per second of the port, whose rate is 50 GB/s.
std::vector<Finding> at_port(const R::Course& bytes, std::span<const Finding> before = {}) {
  R node = verbs("400 Gb/sec (4X NDR)");
  node.counter("ib.xmit_bytes", "mlx5_0:1", bytes, "node");
  return node.findings("nccl.single_qp", before);
}

TEST(RuleSingleQp, NeedsAPlateauBelowTheRateOfThePortOrGpusThatWait) {
  const auto found = at_port(R::habit(0, 20e9));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.back().metric, "ib.xmit_bytes");
  EXPECT_EQ(found[0].evidence.back().expected, 50e9);
  EXPECT_EQ(found[0].sentence.find("not measured"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(at_port(R::always(45e9)).empty()) << "one queue pair fills the port";
  EXPECT_TRUE(at_port(R::always(1e9)).empty()) << "the job has little to send";
  EXPECT_TRUE(at_port([](double second) { return second > 60 && second < 63 ? 20e9 : 0.5e9; }).empty());
  Finding waiting;
  waiting.id = "gpu.starved_comm";
  EXPECT_EQ(at_port(R::always(1e9), std::vector{waiting}).size(), 1U);
  EXPECT_NE(verbs("400 Gb/sec (4X NDR)").findings("nccl.single_qp").at(0).sentence.find("traffic was not measured"),
            std::string::npos);
}

TEST(RuleSingleQp, SaysInWhichPlaceTheSettingIsMissing) {
  const std::string sentence = verbs("400 Gb/sec (4X NDR)").findings("nccl.single_qp").at(0).sentence;
  EXPECT_NE(sentence.find("NCCL_IB_QPS_PER_CONNECTION is not set in the job's environment"), std::string::npos)
      << "/etc/nccl.conf is not read: " << sentence;
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

/// The job made so many queue pairs 30 s after its begin, and closes them 20 s before its end.
R counted(double pairs, double queues, const std::string& device = "mlx5_0") {
  R node = verbs("400 Gb/sec (4X NDR)");
  const auto while_open = [](double level) {
    return [level](double second) { return second >= 30 && second < 100 ? level : 0; };
  };
  node.gauge("rdma.qp.count", device, while_open(pairs)).gauge("rdma.cq.count", device, while_open(queues));
  return node;
}

TEST(RuleSingleQp, CountsQueuePairsPerConnection) {
  const auto found = counted(8, 8).findings("nccl.single_qp");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "rdma.qp.count");
  EXPECT_EQ(found[0].evidence.at(0).observed, 8);
  EXPECT_EQ(found[0].evidence.at(0).instance, "mlx5_0");
  EXPECT_EQ(found[0].evidence.at(1).metric, "rdma.cq.count");
  EXPECT_NE(found[0].sentence.find("8 queue pairs were connected, with 8 completion queues"), std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].sentence.find("not counted"), std::string::npos) << found[0].sentence;
}

TEST(RuleSingleQp, SaysThatItTrustedTheSettingWhereNothingWasCounted) {
  const auto found = verbs("400 Gb/sec (4X NDR)").findings("nccl.single_qp");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("were not counted"), std::string::npos) << found[0].sentence;
  R never = counted(kNaN, kNaN);
  EXPECT_NE(never.findings("nccl.single_qp").at(0).sentence.find("were not counted"), std::string::npos);
}

TEST(RuleSingleQp, BelievesTheCountAndNotTheSetting) {
  EXPECT_TRUE(counted(16, 8).findings("nccl.single_qp").empty()) << "set elsewhere, as in /etc/nccl.conf";
  EXPECT_TRUE(counted(9, 8).findings("nccl.single_qp").empty()) << "another library shares its completion queue";
  R set_in_vain = counted(8, 8);
  set_in_vain.begin.emplace_back("env.NCCL_IB_QPS_PER_CONNECTION", "4");
  const auto found = set_in_vain.findings("nccl.single_qp");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("(NCCL_IB_QPS_PER_CONNECTION is 4)"), std::string::npos) << found[0].sentence;
}

TEST(RuleSingleQp, IsSilentWhereTheConnectionsAreOnAnotherDevice) {
  EXPECT_TRUE(counted(8, 8, "mlx5_7").findings("nccl.single_qp").empty());
}

R on_ethernet(double megabytes, double cpus = 1.2) {
  R node = training(megabytes, megabytes);
  node.counter("process.cpu_time", "rank0", R::always(cpus * 1e9));
  std::erase_if(node.begin, [](const auto& fact) { return fact.first.starts_with("rdma."); });
  node.begin.emplace_back("net.eth0.speed", "100000");
  node.begin.emplace_back("net.eth0.vendor", "0x15b3");
  return node;
}

TEST(RuleSocketThreads, ProposesAnExperimentOnALinkThatIsNeverFull) {
  const auto found = on_ethernet(2000).findings("nccl.socket_threads");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"eth0"});
  EXPECT_EQ(found[0].evidence.at(0).expected, 12.5e9);
  EXPECT_NE(found[0].impact.how.find("not measured"), std::string::npos);
}

TEST(RuleSocketThreads, ShowsTheBytesOfTheCallThatMovesMost) {
  R node = on_ethernet(2000);
  node.counter("stack.bytes", "rank0/ncclAllGather", R::always(100e6), "rank")
      .counter("stack.bytes", "rank0/ncclAllReduce", R::always(900e6), "rank");
  const auto found = node.findings("nccl.socket_threads");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.back().metric, "stack.bytes");
  EXPECT_EQ(found[0].evidence.back().instance, "rank0/ncclAllReduce");
  EXPECT_EQ(on_ethernet(2000).findings("nccl.socket_threads").at(0).evidence.size(), 2U);
}

TEST(RuleSocketThreads, IsSilentWhereMoreSocketsWouldNotHelp) {
  const auto silent = [](const R& node) { return node.findings("nccl.socket_threads").empty(); };
  EXPECT_TRUE(silent(on_ethernet(9000))) << "the link is nearly full";
  EXPECT_TRUE(silent(on_ethernet(20))) << "a rendezvous";
  EXPECT_TRUE(silent(on_ethernet(2000, 0.4))) << "no thread can be full";
  EXPECT_TRUE(silent(training(2000, 2000))) << "a fabric is up";
  R loading = on_ethernet(2000);
  loading.telemetry.channels[1].metric = "net.rx_packets";
  loading.counter("net.rx_bytes", "eth0", R::always(50e6));
  EXPECT_TRUE(silent(loading)) << "it only sends";
  const std::pair<const char*, const char*> reasons[] = {{"env.NCCL_SOCKET_NTHREADS", "4"},
                                                         {"env.NCCL_NSOCKS_PERTHREAD", "2"},
                                                         {"env.SLURM_JOB_NUM_NODES", "1"},
                                                         {"net.eth0.vendor", "0x1d0f"},
                                                         {"net.eth0.speed", "10000"}};
  for (const auto& [key, value] : reasons) {
    R node = on_ethernet(2000);
    std::erase_if(node.begin, [name = key](const auto& fact) { return fact.first == name; });
    node.begin.emplace_back(key, value);
    EXPECT_TRUE(silent(node)) << key;
  }
  Finding saturated;
  saturated.id = "irq.softirq_saturation";
  EXPECT_TRUE(on_ethernet(2000).findings("nccl.socket_threads", std::vector{saturated}).empty());
}

TEST(RuleSocketThreads, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("nccl.socket_threads")), Unavailable);
  R without_slurm = on_ethernet(2000);
  std::erase_if(without_slurm.begin, [](const auto& fact) { return fact.first == "env.SLURM_JOB_NUM_NODES"; });
  EXPECT_THROW(static_cast<void>(without_slurm.findings("nccl.socket_threads")), Unavailable);
  R blind = on_ethernet(2000);
  for (Channel& channel : blind.telemetry.channels) {
    if (channel.metric == "process.cpu_time") channel.metric = "process.other";
  }
  EXPECT_THROW(static_cast<void>(blind.findings("nccl.socket_threads")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::nccl_transport_test
