// irq.balance_service_off and irq.remote_numa: cards with all vectors on one cpu or far away, and cards that only look
// like it.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::irq_placement_test {
namespace {

using R = RuleRecording;

void put(Snapshot& facts, const std::string& key, const std::string& value) {
  for (auto& [name, old] : facts) {
    if (name == key) {
      old = value;
      return;
    }
  }
  facts.emplace_back(key, value);
}

/// Eight cpus on two NUMA nodes; a card on node 1 with vectors 41 to 44, which the cpus named serve.
R node_with(const std::vector<int>& cpus, double per_second = 900) {
  R node;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const std::string vector = "irq." + std::to_string(41 + i);
    node.counter(vector, "cpu" + std::to_string(cpus[i]), R::always(per_second));
    node.begin.emplace_back(vector + ".device", "0000:81:00.0 net eth2, infiniband mlx5_0");
    node.begin.emplace_back(vector + ".effective", std::to_string(cpus[i]));
    node.begin.emplace_back(vector + ".numa_node", "1");
  }
  for (const auto& [key, value] : Snapshot{{"cpu.online", "0-7"},
                                           {"irq.irqbalance", "not running"},
                                           {"job.cpus_allowed", "0-7"},
                                           {"net.eth2.rps_cpus", "00000000"},
                                           {"numa.nodes", "0-1"},
                                           {"numa.node0.cpus", "0-3"},
                                           {"numa.node1.cpus", "4-7"}}) {
    node.begin.emplace_back(key, value);
  }
  return node;
}

TEST(RuleBalanceService, NamesTheCardWhoseVectorsShareACpu) {
  const auto found = node_with({5, 5, 5, 5}).findings("irq.balance_service_off");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"eth2"});
  EXPECT_NE(found[0].sentence.find("cpu5 serves all 4 interrupt vectors of eth2"), std::string::npos)
      << found[0].sentence;
  EXPECT_NE(found[0].remedy.admin.at(1).find("set_irq_affinity.sh eth2"), std::string::npos);
}

TEST(RuleBalanceService, SaysOfTheCostOnlyWhatWasMeasured) {
  R node = node_with({5, 5, 5, 5});
  EXPECT_EQ(node.findings("irq.balance_service_off").at(0).impact.how,
            "not known: time in interrupts and dropped packets of that cpu were not measured");
  node.counter("cpu.softirq", "cpu5", R::always(0.1e9)).counter("softnet.dropped", "cpu5", R::always(0));
  EXPECT_EQ(node.findings("irq.balance_service_off").at(0).impact.how,
            "none seen: cpu5 spent 9.9 % of its time in soft interrupts and dropped 0 packets/s");
  R dropping = node_with({5, 5, 5, 5});
  dropping.counter("cpu.softirq", "cpu5", R::always(0.1e9)).counter("softnet.dropped", "cpu5", R::always(0.5));
  EXPECT_TRUE(dropping.findings("irq.balance_service_off").at(0).impact.how.starts_with("not known: cpu5 spent "));
}

TEST(RuleBalanceService, IsSilentWhereSomebodySpreadsThemOrNeedNot) {
  const auto silent = [](const R& node) { return node.findings("irq.balance_service_off").empty(); };
  EXPECT_TRUE(silent(node_with({4, 5, 6, 7}))) << "static affinity, one cpu for each";
  EXPECT_TRUE(silent(node_with({5, 5, 5}))) << "a card with few vectors";
  EXPECT_TRUE(silent(node_with({5, 5, 5, 5}, 10))) << "a card with little to do";
  const std::pair<const char*, const char*> excuses[] = {{"irq.irqbalance", "running"},
                                                         {"cpu.isolated", "0-4,6-7"},
                                                         {"job.cpus_allowed", "0-3"},
                                                         {"net.eth2.rps_cpus", "000000ff"},
                                                         {"cpu.online", "0-1"}};
  for (const auto& [key, value] : excuses) {
    R node = node_with({5, 5, 5, 5});
    put(node.begin, key, value);
    EXPECT_TRUE(silent(node)) << key;
  }
  R managed = node_with({5, 5, 5, 5});
  for (int i = 41; i < 45; ++i) managed.begin.emplace_back("irq." + std::to_string(i) + ".managed", "yes");
  EXPECT_TRUE(silent(managed));
  R disk = node_with({5, 5, 5, 5});
  for (int i = 41; i < 45; ++i) put(disk.begin, "irq." + std::to_string(i) + ".device", "0000:02:00.0 nvme nvme0");
  EXPECT_TRUE(silent(disk));
}

TEST(RuleBalanceService, LeavesOutVectorsThatServedNothing) {
  R node = node_with({5, 5, 5, 5});
  node.counter("irq.45", "cpu1", R::always(0));
  node.begin.emplace_back("irq.45.device", "0000:81:00.0 net eth2, infiniband mlx5_0");
  node.begin.emplace_back("irq.45.effective", "1");  // a mask of 5 takes effect with the next interrupt
  const auto found = node.findings("irq.balance_service_off");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("cpu5 serves all 4 used interrupt vectors of eth2"), std::string::npos)
      << found[0].sentence;
  R elsewhere = node_with({5, 5, 5, 5, 1});
  EXPECT_TRUE(elsewhere.findings("irq.balance_service_off").empty());
}

TEST(RuleBalanceService, LeavesAPileThatCostsSomethingToTheRuleForIt) {
  Finding costly;
  costly.id = "irq.imbalance";
  EXPECT_TRUE(node_with({5, 5, 5, 5}).findings("irq.balance_service_off", std::vector{costly}).empty());
}

TEST(RuleBalanceService, JudgesANodeWithoutAJobByItsConfiguration) {
  R node = node_with({5, 5, 5, 5}, 0);
  put(node.begin, "job.cpus_allowed", "");
  EXPECT_EQ(node.findings("irq.balance_service_off").size(), 1U);
  node.telemetry.channels.clear();
  const auto found = node.findings("irq.balance_service_off");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with("vectors of eth2."))
      << "no rate where none was measured: " << found[0].sentence;
}

TEST(RuleBalanceService, SaysWhatItCouldNotMeasure) {
  R uncounted = node_with({5, 5, 5, 5});
  uncounted.telemetry.channels.clear();
  EXPECT_THROW(static_cast<void>(uncounted.findings("irq.balance_service_off")), Unavailable);
  EXPECT_THROW(static_cast<void>(R().findings("irq.balance_service_off")), Unavailable);
}

TEST(RuleRemoteNuma, NamesTheCardAndTheCpusBesideIt) {
  const auto found = node_with({0, 1, 2, 4}).findings("irq.remote_numa");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.75, 0.01);
  EXPECT_NE(found[0].sentence.find("75 % of the interrupts of eth2"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].remedy.admin.at(0).find("set_irq_affinity_bynode.sh 1 eth2"), std::string::npos);
  EXPECT_NE(found[0].remedy.admin.at(1).find("echo 4-7 > /proc/irq/41/"), std::string::npos);
}

TEST(RuleRemoteNuma, TakesSendersAlongThatWereGivenTheQueuesFarAway) {
  R node = node_with({0, 1, 2, 4});
  node.begin.emplace_back("net.eth2.xps_cpus", "0:0-1 1:2");
  EXPECT_EQ(node.findings("irq.remote_numa").at(0).remedy.admin.back(),
            "for q in /sys/class/net/eth2/queues/tx-*; do echo f0 > $q/xps_cpus; done   # changes the node until its "
            "next boot (XPS); now: cpus 0-2");
  node.begin.back().second = "0:0-1 1:4";
  EXPECT_EQ(node.findings("irq.remote_numa").at(0).remedy.admin.back().find("xps_cpus"), std::string::npos);
}

TEST(RuleRemoteNuma, IsSilentOnWhatIsNearIdleOrWhereTheJobIs) {
  const auto silent = [](const R& node) { return node.findings("irq.remote_numa").empty(); };
  EXPECT_TRUE(silent(node_with({4, 5, 6, 7})));
  EXPECT_TRUE(silent(node_with({0, 1, 4, 5}))) << "half of them: default affinity over both nodes";
  EXPECT_TRUE(silent(node_with({0, 1, 2, 3}, 100)));
  R elsewhere = node_with({0, 1, 2, 3});
  put(elsewhere.begin, "job.cpus_allowed", "0-3");
  EXPECT_TRUE(silent(elsewhere));
  R managed = node_with({0, 1, 2, 3});
  for (int i = 41; i < 45; ++i) managed.begin.emplace_back("irq." + std::to_string(i) + ".managed", "yes");
  EXPECT_TRUE(silent(managed));
  R one_node = node_with({0, 1, 2, 3});
  put(one_node.begin, "numa.nodes", "0");
  put(one_node.begin, "numa.node1.cpus", "");
  EXPECT_TRUE(silent(one_node));
}

TEST(RuleRemoteNuma, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("irq.remote_numa")), Unavailable);
  R pooled = node_with({0, 1, 2, 3});
  for (Channel& channel : pooled.telemetry.channels) channel.instance = "other_cpus";
  EXPECT_THROW(static_cast<void>(pooled.findings("irq.remote_numa")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::irq_placement_test
