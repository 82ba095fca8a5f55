// irq.imbalance: vectors piled on a cpu that pays for it; healthy skews and vectors the kernel owns.
#include <gtest/gtest.h>

#include "hdf5schema/basics/cpu_mask.h"
#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/interrupt_causes.h"
#include "rule_recording.h"

namespace reveal::tests::irq_imbalance_test {
namespace {

using R = RuleRecording;

/// Four cpus; vectors 41 to 44, all on cpu0 or one on each; cpu0 spends `busy` of its time in soft interrupts.
R node_with(bool piled, double busy, double dropped = 0) {
  R node;
  for (int i = 0; i < 4; ++i) {
    const std::string cpu = "cpu" + std::to_string(i);
    node.counter("cpu.softirq", cpu, R::always((i == 0 ? busy : 0.02) * 1e9));
    node.counter("softnet.dropped", cpu, R::always(i == 0 ? dropped : 0));
    const std::string metric = "irq." + std::to_string(41 + i);
    for (int at = 0; at < 4; ++at) {
      node.counter(metric, "cpu" + std::to_string(at), R::always(at == (piled ? 0 : i) ? 900 : 1));
    }
    node.begin.emplace_back(metric + ".name", "virtio3-input." + std::to_string(i));
  }
  node.begin.emplace_back("cpu.online", "0-3");
  node.begin.emplace_back("irq.irqbalance", "not running");
  node.begin.emplace_back("job.cpus_allowed", "0-3");
  return node;
}

TEST(RuleIrqImbalance, NamesTheCpuItsVectorsAndTheLineToType) {
  const auto found = node_with(true, 0.5).findings("irq.imbalance");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu0"});
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NEAR(found[0].impact.percent.value_or(0), 48, 5);
  EXPECT_NE(found[0].remedy.admin.at(0).find("irqbalance"), std::string::npos);
  EXPECT_NE(found[0].remedy.admin.at(1).find("echo 0-3 > /proc/irq/4"), std::string::npos);
}

TEST(RuleIrqImbalance, PutsAVectorBesideItsDeviceWhereThatIsKnown) {
  R node = node_with(true, 0.5);
  node.begin.emplace_back("numa.node1.cpus", "2-3");
  for (int i = 41; i < 45; ++i) node.begin.emplace_back("irq." + std::to_string(i) + ".numa_node", "1");
  const std::string line = node.findings("irq.imbalance").at(0).remedy.admin.at(1);
  EXPECT_NE(line.find("echo 2-3 > /proc/irq/4"), std::string::npos) << line;
  EXPECT_NE(line.find("on NUMA node 1"), std::string::npos) << line;
}

TEST(RuleIrqImbalance, TakesTheSendersOfTheCrowdedCpuAlong) {
  R node = node_with(true, 0.5);
  for (int i = 41; i < 45; ++i)
    node.begin.emplace_back("irq." + std::to_string(i) + ".device", "0000:00:03.0 net eth3");
  node.begin.emplace_back("net.eth3.xps_cpus", "0-3:0");
  const auto admin = node.findings("irq.imbalance").at(0).remedy.admin;
  EXPECT_NE(admin.at(2).find("/eth3/queues/tx-*; do echo f > $q/xps_cpus"), std::string::npos) << admin.at(2);
  node.begin.back().second = "0:0 1:1 2:2 3:3";
  EXPECT_EQ(node.findings("irq.imbalance").at(0).remedy.admin.size(), admin.size() - 1);
}

TEST(RuleIrqImbalance, DoesNotAdviseToStartWhatRuns) {
  R node = node_with(true, 0.5);
  for (auto& [key, value] : node.begin) {
    if (key == "irq.irqbalance") value = "running";
  }
  EXPECT_NE(node.findings("irq.imbalance").at(0).remedy.admin.at(0).find("disable --now irqbalance"),
            std::string::npos);
}

TEST(RuleIrqImbalance, TakesDroppedPacketsAsACost) {
  EXPECT_EQ(node_with(true, 0.1, 20).findings("irq.imbalance").size(), 1U);
}

TEST(RuleIrqImbalance, IsSilentWithoutACostOrAPile) {
  EXPECT_TRUE(node_with(true, 0.1).findings("irq.imbalance").empty());
  EXPECT_TRUE(node_with(false, 0.5).findings("irq.imbalance").empty());
}

TEST(RuleIrqImbalance, LeavesVectorsAloneThatTheKernelOwns) {
  R node = node_with(true, 0.5);
  for (int i = 41; i < 45; ++i) node.begin.emplace_back("irq." + std::to_string(i) + ".managed", "yes");
  EXPECT_TRUE(node.findings("irq.imbalance").empty());
}

TEST(InterruptCauses, ReadsAndWritesMasks) {
  EXPECT_EQ(cpus_of_mask("5"), (std::vector<int>{0, 2}));
  EXPECT_EQ(cpus_of_mask("1,00000000"), std::vector<int>{32});
  EXPECT_TRUE(cpus_of_mask("0").empty());
  EXPECT_TRUE(cpus_of_mask("1 3").empty());
  EXPECT_EQ(mask_of_cpus({0, 1, 2, 3}), "f");
  EXPECT_EQ(mask_of_cpus({0, 33}), "2,00000001");
  EXPECT_EQ(mask_of_cpus({-1, 3, 2'000'000'000}), "8") << "no kernel has such cpus, and no line such a mask";
  for (const std::vector<int>& cpus : {std::vector<int>{31}, std::vector<int>{0, 32, 64, 95}}) {
    EXPECT_EQ(cpus_of_mask(mask_of_cpus(cpus)), cpus);
  }
}

}  // namespace
}  // namespace reveal::tests::irq_imbalance_test
