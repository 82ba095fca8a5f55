// irq.imbalance: vectors piled on a cpu that pays for it; healthy skews and vectors the kernel owns.
#include <gtest/gtest.h>

#include <tuple>

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
  EXPECT_EQ(found[0].remedy.user.size(), 1U) << "a job cannot move interrupts";
}

/// irqbalance runs and did not spread them.
R balanced_node() {
  R node = node_with(true, 0.5);
  for (auto& [key, value] : node.begin) {
    if (key == "irq.irqbalance") value = "running";
  }
  return node;
}

TEST(RuleIrqImbalance, TellsTheWayByHandAsAnAlternative) {
  const Finding finding = node_with(true, 0.5).findings("irq.imbalance").at(0);
  const std::vector<RemedyStep> steps = steps_of(finding).admin;
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].text, "systemctl enable --now irqbalance   # changes n2, also after a boot: it is not running");
  EXPECT_EQ(steps[0].kind, StepKind::next);
  EXPECT_EQ(steps[1].text,
            "Without irqbalance, write a cpu into /proc/irq/N/smp_affinity_list of each vector N (N:cpu): "
            "41:1,42:2,43:3,44:1.");
  EXPECT_EQ(steps[1].kind, StepKind::alternative);
}

TEST(RuleIrqImbalance, GivesEachVectorACpuOfItsOwn) {
  const auto admin = balanced_node().findings("irq.imbalance").at(0).remedy.admin;
  ASSERT_GE(admin.size(), 5U);
  for (const char* vector : {"41", "42", "43", "44"}) {
    const auto lines = std::count_if(admin.begin() + 1, admin.begin() + 5, [&](const std::string& line) {
      return line.find(std::string("> /proc/irq/") + vector +
                       "/smp_affinity_list   # changes the node until its next boot: virtio3-input.") !=
             std::string::npos;
    });
    EXPECT_EQ(lines, 1) << vector;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(admin[1 + i].starts_with("echo " + std::to_string(1 + i % 3) + " > ")) << "not cpu0: " << admin[1 + i];
  }
}

TEST(RuleIrqImbalance, PutsAVectorBesideItsDeviceWhereThatIsKnown) {
  R node = balanced_node();
  node.begin.emplace_back("numa.node1.cpus", "2-3");
  for (int i = 41; i < 45; ++i) node.begin.emplace_back("irq." + std::to_string(i) + ".numa_node", "1");
  const auto admin = node.findings("irq.imbalance").at(0).remedy.admin;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(admin.at(1 + i).starts_with(i % 2 == 0 ? "echo 2 > /proc/irq/4" : "echo 3 > /proc/irq/4"))
        << admin[1 + i];
    EXPECT_NE(admin[1 + i].find(", on NUMA node 1"), std::string::npos) << admin[1 + i];
  }
}

TEST(RuleIrqImbalance, TakesTheSendersOfTheCrowdedCpuAlong) {
  R node = balanced_node();
  for (int i = 41; i < 45; ++i)
    node.begin.emplace_back("irq." + std::to_string(i) + ".device", "0000:00:03.0 net eth3");
  node.begin.emplace_back("net.eth3.xps_cpus", "0-3:0");
  const auto admin = node.findings("irq.imbalance").at(0).remedy.admin;
  EXPECT_NE(admin.at(5).find("/eth3/queues/tx-*; do echo e > $q/xps_cpus"), std::string::npos) << admin.at(5);
  node.begin.back().second = "0:0 1:1 2:2 3:3";
  EXPECT_EQ(node.findings("irq.imbalance").at(0).remedy.admin.size(), admin.size() - 1);
}

TEST(RuleIrqImbalance, DoesNotAdviseToStartWhatRuns) {
  EXPECT_NE(balanced_node().findings("irq.imbalance").at(0).remedy.admin.at(0).find("systemctl stop irqbalance "),
            std::string::npos);
}

/// Interrupts per second of each vector on its cpu, by name; `busy` of cpu2's time are soft interrupts.
R served(const std::vector<std::tuple<std::string, int, double>>& vectors, double busy) {
  R node;
  int number = 36;
  for (const auto& [name, cpu, rate] : vectors) {
    const std::string metric = "irq." + std::to_string(number++);
    node.counter(metric, "cpu" + std::to_string(cpu), R::always(rate));
    node.begin.emplace_back(metric + ".name", name);
  }
  for (int i = 0; i < 4; ++i) {
    node.counter("cpu.softirq", "cpu" + std::to_string(i), R::always((i == 2 ? busy : 0.02) * 1e9));
  }
  node.begin.emplace_back("cpu.online", "0-3");
  return node;
}

TEST(RuleIrqImbalance, SeesAPileWhoseCountsFellBecauseTheKernelPolls) {
  // As measured: 1,979 to 3,258 interrupts in 5 s on all eight vectors, and 427 of 500 ticks in soft interrupts.
  std::vector<std::tuple<std::string, int, double>> vectors;
  for (int queue = 0; queue < 4; ++queue) {
    vectors.emplace_back("virtio3-input." + std::to_string(queue), 2, 60);
    vectors.emplace_back("virtio3-output." + std::to_string(queue), 2, 50);
  }
  EXPECT_EQ(served(vectors, 0.85).findings("irq.imbalance").size(), 1U);
}

TEST(RuleIrqImbalance, IsSilentOnAHealthySkew) {
  // As measured: the flows of one sender land on one queue, whose cpu has 277 of 500 ticks in soft interrupts.
  EXPECT_TRUE(served({{"virtio1-req.0", 2, 40}, {"virtio3-input.2", 2, 2200}, {"virtio3-output.2", 2, 240}}, 0.55)
                  .findings("irq.imbalance")
                  .empty());
}

TEST(RuleIrqImbalance, TakesDroppedPacketsAsACost) {
  EXPECT_EQ(node_with(true, 0.1, 20).findings("irq.imbalance").size(), 1U);
}

TEST(RuleIrqImbalance, IsSilentWithoutACostOrAPile) {
  EXPECT_TRUE(node_with(true, 0.1).findings("irq.imbalance").empty());
  EXPECT_TRUE(node_with(false, 0.5).findings("irq.imbalance").empty());
}

TEST(RuleIrqImbalance, TakesTheCpusOfALargeHostThatAreMeasuredTogetherForNoSingleOne) {
  R node = node_with(true, 0.02);
  for (Channel& channel : node.telemetry.channels) {
    if (channel.metric.starts_with("irq.") && channel.instance == "cpu0") channel.instance = "other_cpus";
  }
  node.counter("cpu.softirq", "other_cpus", R::always(0.6e9));  // 0.5 % of each of 120 cpus
  EXPECT_TRUE(node.findings("irq.imbalance").empty());
  R beside = node_with(true, 0.5);
  beside.counter("cpu.softirq", "other_cpus", R::always(6e9));
  const auto found = beside.findings("irq.imbalance");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with("the other cpus spend 2.0 %.")) << found[0].sentence;
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
