// irq.softirq_saturation on packets piled up on one cpu that drops some, and on a skew that costs nothing.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::irq_softirq_test {
namespace {

using R = RuleRecording;

R piled_up(double dropped, double squeezed = 0, double softirq = 0.1) {
  R node;
  node.counter("softnet.processed", "cpu0", R::event(30'000, 60'000))
      .counter("softnet.processed", "cpu1", R::event(30'000, 100))
      .counter("softnet.dropped", "cpu0", R::event(0, dropped))
      .counter("softnet.dropped", "cpu1", R::always(0))
      .counter("softnet.time_squeeze", "cpu0", R::event(0, squeezed))
      .counter("cpu.softirq", "cpu0", R::event(0.05e9, softirq * 1e9))
      .counter("tcp.InSegs", "", R::event(60'000, 45'000));
  return node;
}

TEST(RuleSoftirq, NamesTheCpuThatDropsPackets) {
  const R node = piled_up(40);
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu0"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.6);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.6);
  EXPECT_GT(found[0].evidence.at(0).observed.value_or(0), 0.95);
  EXPECT_EQ(found[0].evidence.at(1).metric, "softnet.dropped");
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.25, 0.3);
}

TEST(RuleSoftirq, NamesTheCpuThatGotAsManyPacketsAloneWhileTheJobDidLess) {
  const auto with_work = [](double received, double work, double lost = 0, double out_of_order = 0,
                            double softirq = 0.07) {
    R node;
    node.counter("softnet.processed", "cpu0", R::event(30'000, received))
        .counter("softnet.processed", "cpu1", R::event(30'000, 100))
        .counter("cpu.softirq", "cpu0", R::event(0.02e9, softirq * 1e9))
        .counter("cpu.softirq", "cpu1", R::event(0.06e9, 0))  // the node spends less time than usual
        .counter("process.read_by_calls", "rank0", R::event(1e6, work))
        .counter("tcp.RetransSegs", "", R::event(1, lost))
        .counter("tcpext.TCPOFOQueue", "", R::event(1, out_of_order));
    return node.findings("irq.softirq_saturation");
  };
  const auto found = with_work(60'000, 0.8e6);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.2, 0.3);
  EXPECT_EQ(found[0].evidence.at(1).metric, "cpu.softirq");
  EXPECT_NE(found[0].sentence.find("spent 0.0693 cpus on them (usually 0.0198)"), std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(with_work(60'000, 1e6).empty()) << "the job did as much as ever";
  EXPECT_TRUE(with_work(20'000, 0.8e6).empty()) << "the job did something else";
  EXPECT_TRUE(with_work(60'000, 0.8e6, 600).empty()) << "packets to another node were lost";
  EXPECT_TRUE(with_work(60'000, 0.8e6, 0, 600).empty()) << "packets to this node were lost";
  EXPECT_TRUE(with_work(60'000, 0.8e6, 0, 0, 0.03).empty()) << "the cpu had as much time for its ranks as ever";
}

TEST(RuleSoftirq, KnowsNoUsualLevelOfAPileUpThatLastsAllAlong) {
  R node;
  node.counter("softnet.processed", "cpu0", R::always(60'000))
      .counter("softnet.processed", "cpu1", R::always(100))
      .counter("softnet.dropped", "cpu0", R::always(40));
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence.find("usually"), std::string::npos) << found[0].sentence;
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value());
  EXPECT_FALSE(found[0].evidence.at(1).expected.has_value());
  EXPECT_EQ(found[0].impact.how, "not known: no part of the run was without it");
}

TEST(RuleSoftirq, DoesNotAdviseToStartWhatRunsOrToSetSocketsThatAreNotUsed) {
  const auto lines = [](const Snapshot& facts) {
    R node = piled_up(40);
    node.end = facts;
    const Remedy remedy = node.findings("irq.softirq_saturation").at(0).remedy;
    std::string all;
    for (const auto* list : {&remedy.user, &remedy.admin}) {
      for (const std::string& line : *list) all += line + '\n';
    }
    return all;
  };
  const std::string sockets = lines({{"job.libraries", "nccl"}, {"job.rdma_opened", "none"}, {"job.gpus_opened", "0"}});
  EXPECT_NE(sockets.find("NCCL_SOCKET_NTHREADS"), std::string::npos) << sockets;
  EXPECT_NE(sockets.find("enable --now irqbalance"), std::string::npos) << sockets;
  const std::string gloo = lines({{"job.libraries", "nccl"}, {"job.rdma_opened", "none"}, {"job.gpus_opened", "none"}});
  EXPECT_EQ(gloo.find("NCCL_SOCKET_NTHREADS"), std::string::npos) << "no GPU, so no NCCL";
  const std::string fabric = lines(
      {{"irq.irqbalance", "running"}, {"job.libraries", "nccl"}, {"job.rdma_opened", "0"}, {"job.gpus_opened", "0"}});
  EXPECT_EQ(fabric.find("NCCL_SOCKET_NTHREADS"), std::string::npos) << fabric;
  EXPECT_EQ(fabric.find("irqbalance"), std::string::npos) << fabric;
}

TEST(RuleSoftirq, NamesTheSteeringThatCausesIt) {
  R node = piled_up(40);
  node.begin = {{"cpu.online", "0-1"}, {"net.eth0.rps_cpus", "1"}, {"net.eth1.rps_cpus", "3"}};
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("eth0 are steered only to this cpu"), std::string::npos);
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("grep . ")) << "a look before the changes";
  EXPECT_NE(found[0].remedy.admin.at(1).find("/eth0/queues/rx-*; do echo 3 >"), std::string::npos);
  EXPECT_EQ(found[0].remedy.admin.at(2).find("xps_cpus"), std::string::npos) << "not known who sends";
}

TEST(RuleSoftirq, OpensTheQueuesOfSendersThatWereGivenToTheSameCpu) {
  const auto second_change = [](const char* senders) {
    R node = piled_up(40);
    node.begin = {{"cpu.online", "0-1"}, {"net.eth0.rps_cpus", "1"}, {"net.eth0.xps_cpus", senders}};
    return node.findings("irq.softirq_saturation").at(0).remedy.admin.at(2);
  };
  EXPECT_EQ(second_change("0-3:0"),
            "for q in /sys/class/net/eth0/queues/tx-*; do echo 3 > $q/xps_cpus; done   # changes the node until its "
            "next boot (XPS); now: cpus 0");
  for (const char* others : {"0:0 1:1", "0-3:none", "", "0-3:0 ...", "nonsense"}) {
    EXPECT_EQ(second_change(others).find("xps_cpus"), std::string::npos) << others;
  }
}

TEST(RuleSoftirq, TakesWorkLeftBehindOrAFullCpuAsACost) {
  ASSERT_EQ(piled_up(0, 500).findings("irq.softirq_saturation").size(), 1U);
  ASSERT_EQ(piled_up(0, 0, 0.95).findings("irq.softirq_saturation").size(), 1U);
}

/// A healthy share that changes: 77 % of the packets on cpu1 before the event, half of them on each cpu later.
R unevenly_spread(double dropped) {
  const auto first = [](double second) {
    return second < 50 ? 18'000 : second < 65 ? 80'000 : second < 80 ? 18'000 : 40'000;
  };
  const auto other = [](double second) {
    return second < 50 ? 62'000 : second < 65 ? 100 : second < 80 ? 62'000 : 40'000;
  };
  R node;
  node.counter("softnet.processed", "cpu0", first)
      .counter("softnet.processed", "cpu1", other)
      .counter("softnet.dropped", "cpu0", R::event(0, dropped))
      .counter("tcp.InSegs", "", R::event(60'000, 45'000));
  return node;
}

TEST(RuleSoftirq, NamesAPileUpAmongSharesThatChange) {
  const R node = unevenly_spread(20);
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu0"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 1);
  EXPECT_TRUE(unevenly_spread(0).findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, CountsTheDropsWithWhichAPileUpBegins) {
  R node = piled_up(0);
  const auto first = [](double second) {
    return second >= 49.6 && second < 50 ? 350.0 : second >= 58 && second < 65 ? 8.0 : 0.0;
  };
  std::size_t channel = 0;
  while (node.telemetry.channels[channel].metric != "softnet.dropped") ++channel;
  for (std::size_t t = 0; t < node.telemetry.samples; ++t) {
    node.telemetry.series(channel)[t] = 0.1 * first(0.1 * static_cast<double>(t));
  }
  EXPECT_EQ(node.findings("irq.softirq_saturation").size(), 1U);
}

TEST(RuleSoftirq, IsSilentOnASkewThatCostsNothing) {
  EXPECT_TRUE(piled_up(0).findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, IsSilentOnDropsOfPacketsThatAreSpread) {
  R node;
  node.counter("softnet.processed", "cpu0", R::event(30'000, 60'000))
      .counter("softnet.processed", "cpu1", R::event(30'000, 60'000))
      .counter("softnet.dropped", "cpu0", R::event(0, 40));
  EXPECT_TRUE(node.findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, TakesWhatManyCpusTookTogetherForNobodys) {
  R spread;  // a large host: the cpus without channels of their own are one
  spread.counter("softnet.processed", "other_cpus", R::always(90'000))
      .counter("softnet.processed", "cpu7", R::always(900))
      .counter("softnet.dropped", "other_cpus", R::event(0, 40));
  EXPECT_TRUE(spread.findings("irq.softirq_saturation").empty());
  R node;
  node.counter("softnet.processed", "other_cpus", R::event(60'000, 900))
      .counter("softnet.processed", "cpu7", R::event(900, 60'000))
      .counter("softnet.dropped", "cpu7", R::event(0, 40));
  const auto found = node.findings("irq.softirq_saturation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu7"});
}

TEST(RuleSoftirq, IsSilentOnAFewPackets) {
  R node;
  node.counter("softnet.processed", "cpu0", R::always(50))
      .counter("softnet.processed", "cpu1", R::always(0))
      .counter("softnet.dropped", "cpu0", R::event(0, 5));
  EXPECT_TRUE(node.findings("irq.softirq_saturation").empty());
}

TEST(RuleSoftirq, ExplainsTheLossThatFollowsFromIt) {
  R node = piled_up(40);
  node.counter("tcpext.TCPOFOQueue", "", R::event(0.1, 400));
  EXPECT_TRUE(explained_by(node, node.findings("irq.softirq_saturation"), "net.tcp_retrans_fault"));
}

TEST(RuleSoftirq, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("irq.softirq_saturation")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::irq_softirq_test
