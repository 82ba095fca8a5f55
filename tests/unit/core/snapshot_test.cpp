#include "core/snapshot/snapshot.h"

#include <gtest/gtest.h>

#include "test_host.h"

namespace reveal {
namespace {

TEST(NetworkLinks, TellSteeringQueuesPortsAndNodes) {
  const TestHost host;
  const std::string net = "/sys/class/net/eth0/";
  for (const char* queue : {"rx-0", "rx-1"}) host.write(net + "queues/" + queue + "/rps_cpus", "00000000,00000001\n");
  host.write(net + "queues/tx-0/xps_cpus", "3\n");
  host.write(net + "speed", "100000\n");
  host.write(net + "device/driver", "");
  host.write("/sys/class/net/eth0/numa_node", "1\n");  // of the parent: device/.. here
  host.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  host.write("/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  host.write("/sys/devices/system/node/node1/cpulist", "2-3\n");
  host.write("/sys/devices/system/node/node1/distance", "21 10\n");
  KernelTree fs(host.root());
  const auto value = [](const Snapshot& facts, std::string_view key) {
    for (const auto& [name, text] : facts) {
      if (name == key) return text;
    }
    return std::string("no such fact");
  };
  const Snapshot links = network_links(fs);
  EXPECT_EQ(value(links, "net.eth0.rps_cpus"), "00000000,00000001");
  EXPECT_EQ(value(links, "net.eth0.rx_queues"), "2");
  EXPECT_EQ(value(links, "net.eth0.speed"), "100000");
  EXPECT_EQ(value(links, "net.eth0.numa_node"), "1");
  const Snapshot ports = rdma_ports(fs);
  EXPECT_EQ(value(ports, "rdma.mlx5_0.1.state"), "ACTIVE");
  EXPECT_EQ(value(ports, "rdma.mlx5_0.1.rate"), "200 Gb/sec (4X HDR)");
  const Snapshot nodes = numa_nodes(fs);
  EXPECT_EQ(value(nodes, "numa.node1.cpus"), "2-3");
  EXPECT_EQ(value(nodes, "numa.node1.distance"), "21 10");
}

TEST(PowerLimits, AreThoseOfWholePackagesThatLast) {
  const TestHost host;
  const auto zone = [&](const std::string& name, const std::string& label, const std::string& term) {
    const std::string folder = "/sys/class/powercap/" + name;
    host.write(folder + "/name", label + "\n");
    host.write(folder + "/constraint_0_name", term + "\n");
    host.write(folder + "/constraint_0_power_limit_uw", "200000000\n");
    host.write(folder + "/constraint_0_max_power_uw", "270000000\n");
  };
  zone("intel-rapl:0", "package-0", "long_term");
  zone("intel-rapl:0:0", "dram", "long_term");
  zone("intel-rapl:1", "package-1", "short_term");
  KernelTree fs(host.root());
  const Host looked = Host::look(fs);
  std::vector<std::pair<std::string, std::string>> limits;
  for (const auto& fact : take_snapshot(fs, looked, nullptr)) {
    if (fact.first.starts_with("cpu.power_limit")) limits.push_back(fact);
  }
  EXPECT_EQ(limits, (std::vector<std::pair<std::string, std::string>>{{"cpu.power_limit.0", "200000000"},
                                                                      {"cpu.power_limit_most.0", "270000000"}}));
}

TEST(Environment, KeepsExactNamesOnly) {
  using namespace std::literals;
  const auto environ = "OMP_NUM_THREADS=4\0SECRET_TOKEN=x\0OMP_NUM_THREADS_=5\0HF_TOKEN=y\0NCCL_ALGO=Ring\0"sv;
  const Snapshot kept = allowed_environment(environ);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].second, "4");
  EXPECT_EQ(kept[1].first, "NCCL_ALGO");
}

}  // namespace
}  // namespace reveal
