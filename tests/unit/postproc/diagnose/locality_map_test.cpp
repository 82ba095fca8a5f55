#include "postproc/diagnose/locality_map.h"

#include <gtest/gtest.h>

#include <limits>

#include "postproc/diagnose/numa_layout.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal::tests::locality_map_test {
namespace {

/// Two sockets, as recorded on a node with four GPUs and two adapters.
Snapshot two_sockets() {
  return {{"gpu.gpu0.address", "0000:17:00.0"},
          {"gpu.gpu0.numa_node", "0"},
          {"gpu.gpu1.address", "0000:ca:00.0"},
          {"gpu.gpu1.mig", "enabled"},
          {"irq.40.device", "0000:18:00.0 net ib0, infiniband mlx5_0"},
          {"irq.40.effective", "1"},
          {"irq.40.numa_node", "0"},
          {"irq.41.device", "0000:18:00.0 net ib0, infiniband mlx5_0"},
          {"irq.41.effective", "9"},
          {"irq.41.numa_node", "0"},
          {"irq.42.affinity", "0-15"},
          {"irq.42.device", "0000:e1:00.0 nvme nvme0"},
          {"job.cpus_allowed", "0-3"},
          {"net.busy_poll", "0"},
          {"net.docker0.mtu", "1500"},
          {"net.eth0.numa_node", "1"},
          {"net.eth0.speed", "25000"},
          {"net.eth0.vendor", "0x15b3"},
          {"net.ib0.numa_node", "0"},
          {"net.ib0.vendor", "0x15b3"},
          {"numa.node0.cpus", "0-7"},
          {"numa.node0.distance", "10 21"},
          {"numa.node1.cpus", "8-15"},
          {"numa.node1.distance", "21 10"},
          {"pci.0000:17:00.0.class", "gpu"},
          {"pci.0000:65:00.0.class", "gpu"},
          {"pci.0000:65:00.0.numa_node", "-1"},
          {"pci.0000:ca:00.0.class", "gpu"},
          {"pci.0000:ca:00.0.numa_node", "1"},
          {"rdma.mlx5_0.1.interface", "ib0"},
          {"rdma.mlx5_0.1.rate", "200 Gb/sec (4X HDR)"},
          {"rdma.mlx5_0.1.state", "ACTIVE"},
          {"rdma.mlx5_0.numa_node", "0"}};
}

using Words = std::vector<std::string>;

TEST(LocalityMap, NamesTheGpusOnThePciSwitchOfACard) {
  Snapshot facts = two_sockets();
  facts.emplace_back("pci.0000:17:00.0.bridges", "0000:16:01.0 0000:16:02.0");
  facts.emplace_back("pci.0000:18:00.0.bridges", "0000:16:01.0 0000:16:03.0");
  facts.emplace_back("pci.0000:18:00.0.device", "0000:18:00.0 net ib0, infiniband mlx5_0");
  facts.emplace_back("pci.0000:ca:00.0.bridges", "0000:c9:01.0");
  EXPECT_EQ(locality_map(facts, {}).places.at(0).networks,
            Words{"mlx5_0 (ib0, 200 Gb/sec (4X HDR), ACTIVE; on the PCI switch of gpu0)"});
}

TEST(LocalityMap, PutsCpusGpusCardsAndInterruptsWhereTheyAre) {
  const LocalityMap map = locality_map(two_sockets(), {});
  ASSERT_EQ(map.places.size(), 3U);
  EXPECT_EQ(map.note, "");
  const LocalityPlace& first = map.places[0];
  EXPECT_EQ(first.numa, 0);
  EXPECT_EQ(first.cpus, "0-7");
  EXPECT_EQ(first.job_cpus, "0-3");
  EXPECT_EQ(first.gpus, Words{"gpu0 (0000:17:00.0)"});
  EXPECT_EQ(first.networks, Words{"mlx5_0 (ib0, 200 Gb/sec (4X HDR), ACTIVE)"}) << "a card and its interface are one";
  EXPECT_EQ(first.interrupts,
            Words{"net ib0, infiniband mlx5_0: 2 vectors on cpus 1,9, 1 of them on another NUMA node"});
  const LocalityPlace& second = map.places[1];
  EXPECT_EQ(second.numa, 1);
  EXPECT_EQ(second.job_cpus, "");
  EXPECT_EQ(second.gpus, Words{"gpu1 (0000:ca:00.0, divided by MIG)"}) << "the place of the card on the bus";
  EXPECT_EQ(second.networks, Words{"eth0 (25 Gb/s)"});
  const LocalityPlace& unknown = map.places[2];
  EXPECT_EQ(unknown.numa, std::nullopt);
  EXPECT_EQ(unknown.gpus, Words{"0000:65:00.0"}) << "the firmware does not say it, and reveal does not guess";
  EXPECT_EQ(unknown.interrupts, Words{"nvme nvme0: 1 vector on cpus 0-15"});
}

TEST(LocalityMap, IsOneLineWhereThereIsNoNearAndNoFar) {
  const LocalityMap one = locality_map({{"gpu.gpu0.address", "0000:17:00.0"}, {"numa.node0.cpus", "0-7"}}, {});
  EXPECT_TRUE(one.places.empty());
  EXPECT_EQ(one.note, "one NUMA node: all devices and all memory are equally near to every cpu");
  const LocalityMap none = locality_map({{"kernel.release", "6.1"}}, {});
  EXPECT_TRUE(none.places.empty());
  EXPECT_NE(none.note.find("not known"), std::string::npos);
}

TEST(LocalityMap, TakesFromTheEndWhatTheBeginningLacks) {
  Snapshot begin = two_sockets();
  Snapshot end{{"gpu.gpu2.address", "0000:31:00.0"}, {"gpu.gpu2.numa_node", "1"}, {"job.cpus_allowed", "8-15"}};
  const LocalityMap map = locality_map(begin, end);
  EXPECT_EQ(map.places[1].gpus.back(), "gpu2 (0000:31:00.0)");
  EXPECT_EQ(map.places[1].job_cpus, "") << "what the beginning says, stands";
}

Telemetry ranks() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Telemetry telemetry;
  telemetry.samples = 4;
  const auto add = [&](const char* metric, const char* instance, std::vector<double> values) {
    telemetry.channels.push_back(
        {.metric = metric, .instance = instance, .kind = Kind::gauge, .scope = Scope::process});
    telemetry.values.insert(telemetry.values.end(), values.begin(), values.end());
  };
  add("process.last_cpu", "rank0", {0, 1, 2, 9});
  add("process.last_cpu", "rank1", {nan, nan, nan, nan});
  add("process.numa_bytes", "rank0/node0", {3e9, nan, nan, 3e9});
  add("process.numa_bytes", "rank0/node1", {1e9, nan, nan, 1e9});
  add("process.gpu_memory", "rank0/gpu1", {1e9, 1e9, 1e9, 1e9});
  add("process.gpu_memory", "rank7/gpu1", {1e9, 1e9, 1e9, 1e9});
  return telemetry;
}

TEST(LocalityMap, SaysWhereProcessesRanAndHowFarTheirMemoryAndGpusWere) {
  const Snapshot facts = two_sockets();
  const auto processes = process_places(ranks(), numa_layout(facts, ""));
  ASSERT_EQ(processes.size(), 2U);
  const LocalityMap map = locality_map(facts, {}, processes);
  EXPECT_EQ(map.places[0].processes,
            Words{"rank0 (75 % of its time; memory 2.79 GiB here, 954 MiB on node 1; gpu1 on node 1)"});
  EXPECT_TRUE(map.places[1].processes.empty());
  EXPECT_EQ(map.places[2].processes, Words{"rank1"}) << "never seen on a cpu";
}

TEST(LocalityMap, TakesNoNumberForAPlaceThatIsNone) {
  Snapshot facts = two_sockets();
  // 2^32 + 1 and 2^31 - 1; places beyond those of any kernel.
  for (const char* node : {"4294967297", "2147483647", "5000000", "-1"}) {
    facts.emplace_back("numa.node" + std::string(node) + ".cpus", "0-15");
    facts.emplace_back("net.eth" + std::string(node) + ".numa_node", node);
  }
  const LocalityMap map = locality_map(facts, {});
  ASSERT_EQ(map.places.size(), 3U);
  EXPECT_EQ(map.places[0].cpus, "0-7");
  EXPECT_EQ(map.places[1].cpus, "8-15");
  EXPECT_EQ(map.places[2].numa, std::nullopt);
  EXPECT_EQ(map.places[2].networks, (Words{"eth-1", "eth2147483647", "eth4294967297", "eth5000000"}));
  Telemetry telemetry;
  telemetry.samples = 5;
  for (const char* metric : {"process.last_cpu", "process.last_cpu"}) {  // twice
    telemetry.channels.push_back({.metric = metric, .instance = "rank0", .scope = Scope::process});
    for (const double cpu : {9e18, -1.0, std::numeric_limits<double>::infinity(), 4294967296.0, 3.0}) {
      telemetry.values.push_back(cpu);
    }
  }
  const auto processes = process_places(telemetry, numa_layout(facts, ""));
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].shares, (std::map<int, double>{{0, 1.0}}));
}

TEST(LocalityMap, IsAsLongAsANodeNeedsWhateverTheTraceHolds) {
  Snapshot facts{{"numa.node0.cpus", "0-2047"}, {"numa.node1.cpus", "2048-4095"}};
  std::string every_second;
  for (int cpu = 0; cpu < 4096; cpu += 2) every_second += std::to_string(cpu) + ',';
  for (int i = 0; i < 2'000; ++i) {
    const std::string number = std::to_string(i);
    facts.emplace_back("irq." + number + ".device", "0000:18:00.0 net eth" + number);
    facts.emplace_back("irq." + number + ".effective", i < 100 ? every_second : "0-65535");
    facts.emplace_back("gpu.gpu" + number + ".address", number);
    facts.emplace_back("net.eth" + number + ".vendor", "0x15b3");
  }
  std::size_t bytes = 0;
  const LocalityMap map = locality_map(facts, {});
  ASSERT_EQ(map.places.size(), 3U);
  for (const LocalityPlace& place : map.places) {
    for (const auto* words : {&place.gpus, &place.networks, &place.interrupts}) {
      EXPECT_LE(words->size(), 65U);
      for (const std::string& word : *words) bytes += word.size();
    }
  }
  EXPECT_EQ(map.places[2].gpus.back(), "and 1936 more");
  EXPECT_LT(bytes, 100'000U);
}

TEST(LocalityMap, SurvivesFactsThatMakeNoSense) {
  Snapshot facts = two_sockets();
  facts.emplace_back("irq.x.device", "");
  facts.emplace_back("irq.43.device", "0000:18:00.0");
  facts.emplace_back("irq.43.numa_node", "99999999999999999999");
  facts.emplace_back("rdma..state", "ACTIVE");
  facts.emplace_back("net..vendor", "");
  facts.emplace_back("pci..class", "gpu");
  facts.emplace_back("gpu.gpu9.address", "");
  facts.emplace_back("gpu.gpu9.numa_node", "-5");
  facts.emplace_back("numa.node-1.cpus", "0-3");
  EXPECT_GE(locality_map(facts, facts).places.size(), 3U);
}

}  // namespace
}  // namespace reveal::tests::locality_map_test
