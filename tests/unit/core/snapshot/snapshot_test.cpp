#include "core/snapshot/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "test_host.h"

namespace reveal::tests::snapshot_test {
namespace {

TEST(NetworkLinks, NameTheCardsBelowOtherInterfaces) {
  const TestHost host;
  const std::string net = "/sys/class/net/";
  for (const char* card : {"eth0", "eth1"}) host.write(net + card + "/device/driver", "");
  host.write(net + "bond0/lower_eth0/mtu", "9000\n");
  host.write(net + "bond0/lower_eth1/mtu", "9000\n");
  host.write(net + "bond0.7/lower_bond0/mtu", "9000\n");
  host.write(net + "docker0/lower_veth1/mtu", "1500\n");
  host.write(net + "veth1/mtu", "1500\n");
  host.write(net + "loop/lower_loop/mtu", "1500\n");  // no kernel makes it, a copied tree may
  KernelTree fs(host.root());
  std::map<std::string, std::string> cards;
  for (const auto& [key, text] : network_links(fs)) {
    if (key.ends_with(".cards")) cards[key] = text;
  }
  EXPECT_EQ(cards,
            (std::map<std::string, std::string>{{"net.bond0.cards", "eth0 eth1"}, {"net.bond0.7.cards", "eth0 eth1"}}));
}

TEST(NetworkLinks, TellSteeringQueuesPortsAndNodes) {
  const TestHost host;
  const std::string net = "/sys/class/net/eth0/";
  for (const char* queue : {"rx-0", "rx-1"}) host.write(net + "queues/" + queue + "/rps_cpus", "00000000,00000001\n");
  for (const char* queue : {"tx-0", "tx-1", "tx-10"}) host.write(net + "queues/" + queue + "/xps_cpus", "3\n");
  host.write(net + "queues/tx-2/xps_cpus", "1,00000000\n");
  host.write(net + "queues/tx-3/xps_cpus", "0\n");
  host.write(net + "queues/tx-4/tx_timeout", "0\n");  // one without cpus in the kernel's text
  host.write(net + "speed", "100000\n");
  host.write(net + "device/driver", "");
  host.write("/sys/class/net/eth0/numa_node", "1\n");  // the file of the parent: device/.. here
  host.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  host.write("/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  host.write("/sys/devices/system/node/node1/cpulist", "2-3\n");
  host.write("/sys/devices/system/node/node1/distance", "21 10\n");
  host.write("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
  host.write("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "8\n");
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
  EXPECT_EQ(value(links, "net.eth0.xps_cpus"), "0-1,10:0-1 2:32 3:none");
  EXPECT_EQ(value(links, "net.eth0.tx_queues"), "6");
  EXPECT_EQ(value(links, "net.eth0.speed"), "100000");
  EXPECT_EQ(value(links, "net.eth0.numa_node"), "1");
  EXPECT_EQ(value(links, "net.eth0.cards"), "no such fact");
  const Snapshot ports = rdma_ports(fs);
  EXPECT_EQ(value(ports, "rdma.mlx5_0.1.state"), "ACTIVE");
  EXPECT_EQ(value(ports, "rdma.mlx5_0.1.rate"), "200 Gb/sec (4X HDR)");
  const Snapshot nodes = numa_nodes(fs);
  EXPECT_EQ(value(nodes, "numa.node1.cpus"), "2-3");
  EXPECT_EQ(value(nodes, "numa.node1.distance"), "21 10");
  EXPECT_EQ(value(nodes, "numa.node1.hugepages-2048kB"), "512");
  EXPECT_EQ(value(nodes, "numa.node1.hugepages-1048576kB"), "8");
}

TEST(NetworkLinks, AreThoseOfCardsFirstOnAHostOfContainers) {
  const TestHost host;
  for (int i = 0; i < 40; ++i) host.write("/sys/class/net/cali" + std::to_string(i) + "/speed", "10000\n");
  host.write("/sys/class/net/eth0/speed", "100000\n");
  host.write("/sys/class/net/eth0/device/vendor", "0x15b3\n");
  KernelTree fs(host.root());
  const Snapshot links = network_links(fs);
  EXPECT_TRUE(std::any_of(links.begin(), links.end(), [](const auto& fact) { return fact.first == "net.eth0.speed"; }));
}

TEST(NetworkLinks, TellNoLongerListOfSendersThanAFactHasRoomFor) {
  const TestHost host;
  for (int queue = 0; queue < 512; ++queue) {
    std::string mask(1, "1248"[queue % 4]);
    mask.append(static_cast<std::size_t>(queue % 32 / 4), '0');
    for (int cpu = queue; cpu >= 32; cpu -= 32) mask += ",00000000";
    host.write("/sys/class/net/eth0/queues/tx-" + std::to_string(queue) + "/xps_cpus", mask + "\n");
  }
  KernelTree fs(host.root());
  for (const auto& [key, value] : network_links(fs)) {
    if (key != "net.eth0.xps_cpus") continue;
    EXPECT_LT(value.size(), 400U);
    EXPECT_TRUE(value.starts_with("0:0 1:1 ") && value.ends_with(" ...")) << value;
  }
}

TEST(InterfaceAddresses, AreThoseOfThisHostAndOfNoCopiedTree) {
  KernelTree live;
  for (const auto& [key, value] : interface_addresses(live)) {
    EXPECT_TRUE(key.starts_with("address.")) << key;
    EXPECT_EQ(value.find("127."), std::string::npos) << value;
    EXPECT_FALSE(value.empty()) << key;
  }
  const TestHost host;
  KernelTree copied(host.root());
  EXPECT_TRUE(interface_addresses(copied).empty());
  host.write("/ticks.rec",
             "reveal recording 1\n+ 0 @@addresses\n$ 0 39\neth0 10.77.0.1 ib0 10.9.0.1 eth0 fd::1 \n= 1 1\n");
  KernelTree recorded(host.root());
  EXPECT_EQ(interface_addresses(recorded),
            (Snapshot{{"address.eth0", "10.77.0.1 fd::1"}, {"address.ib0", "10.9.0.1"}}));
}

std::string value_of(const Snapshot& facts, std::string_view key) {
  for (const auto& [name, text] : facts) {
    if (name == key) return text;
  }
  return "no such fact";
}

TEST(RdmaPorts, TellTheAdapterItsLinksAndTheirInterfaces) {
  const TestHost host;
  const std::string hca = "/sys/class/infiniband/mlx5_0/";
  host.write(hca + "hca_type", "MT4129\n");
  host.write(hca + "fw_ver", "28.39.3560\n");
  host.write(hca + "device/numa_node", "1\n");
  host.write(hca + "device/net/ib1/dev_port", "1\n");
  host.write(hca + "device/net/ib0/dev_port", "0\n");
  host.write(hca + "ports/1/state", "4: ACTIVE\n");
  host.write(hca + "ports/1/phys_state", "5: LinkUp\n");
  host.write(hca + "ports/1/rate", "400 Gb/sec (4X NDR)\n");
  host.write(hca + "ports/1/link_layer", "InfiniBand\n");
  host.write(hca + "ports/2/state", "1: DOWN\n");
  host.write(hca + "ports/2/phys_state", "3: Disabled\n");
  const std::string roce = "/sys/class/infiniband/mlx5_1/ports/1/";
  host.write(roce + "link_layer", "Ethernet\n");
  host.write(roce + "gid_attrs/ndevs/0", "eth2\n");
  host.write("/sys/class/infiniband/rxe0/parent", "eth0\n");
  host.write("/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
  KernelTree fs(host.root());
  const Snapshot ports = rdma_ports(fs);
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.type"), "MT4129");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.firmware"), "28.39.3560");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.numa_node"), "1");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.1.phys_state"), "LinkUp");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.1.rate"), "400 Gb/sec (4X NDR)");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.1.interface"), "ib0");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.2.state"), "DOWN");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.2.phys_state"), "Disabled");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_0.2.interface"), "ib1");
  EXPECT_EQ(value_of(ports, "rdma.mlx5_1.1.interface"), "eth2");
  EXPECT_EQ(value_of(ports, "rdma.rxe0.1.interface"), "eth0");
}

TEST(PciLinks, TellWhatALinkCanDoWhatItDoesAndWhatWentWrongAtBothEnds) {
  const TestHost host;
  const std::string card = "/sys/bus/pci/devices/0000:81:00.0/";
  host.write(card + "class", "0x020700\n");
  host.write(card + "infiniband/mlx5_0/node_type", "1: CA\n");
  host.write(card + "current_link_width", "8\n");
  host.write(card + "max_link_width", "16\n");
  host.write(card + "current_link_speed", "8.0 GT/s PCIe\n");
  host.write(card + "max_link_speed", "16.0 GT/s PCIe\n");
  host.write(card + "aer_dev_correctable",
             "RxErr 3\nBadTLP 20\nBadDLLP 0\nRollover 0\nTimeout 1\nNonFatalErr 900\nCorrIntErr 0\nHeaderOF 0\n"
             "TOTAL_ERR_COR 924\n");
  host.write(card + "aer_dev_nonfatal", "Undefined 0\nPoisonTLP 1\nTOTAL_ERR_NONFATAL 1\n");
  // The folder above a device's real one is the port's: here that of all devices.
  host.write("/sys/bus/pci/devices/max_link_width", "32\n");
  host.write("/sys/bus/pci/devices/aer_dev_correctable", "Receiver Error 5\nBad TLP 2\nAdvisory Non-Fatal 7\n");
  KernelTree fs(host.root());
  const Snapshot facts = pci_links(fs);
  EXPECT_EQ(value_of(facts, "pci.0000:81:00.0.class"), "network");
  EXPECT_EQ(value_of(facts, "pci.0000:81:00.0.device"), "0000:81:00.0 infiniband mlx5_0");
  EXPECT_EQ(value_of(facts, "pci.0000:81:00.0.width"), "8");
  EXPECT_EQ(value_of(facts, "pci.0000:81:00.0.max_width"), "16");
  EXPECT_EQ(value_of(facts, "pci.0000:81:00.0.port_max_width"), "32");
  EXPECT_EQ(value_of(facts, "pci.0000:81:00.0.max_speed"), "16.0 GT/s PCIe");
  EXPECT_EQ(value_of(facts, "pci_state.0000:81:00.0.speed"), "8.0 GT/s PCIe");
  EXPECT_EQ(value_of(facts, "pci_state.0000:81:00.0.link_errors"), "24");
  EXPECT_EQ(value_of(facts, "pci_state.0000:81:00.0.port_link_errors"), "7");
  EXPECT_EQ(value_of(facts, "pci_state.0000:81:00.0.nonfatal"), "1");
  EXPECT_EQ(value_of(facts, "pci_state.0000:81:00.0.fatal"), "");
}

TEST(PciLinks, NameTheBridgesAboveADevice) {
  const TestHost host;
  const std::string real = "/sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/0000:c2:08.0/0000:c5:00.0";
  host.write(real + "/class", "0x020700\n");
  host.write(real + "/max_link_width", "16\n");
  host.write("/sys/devices/pci0000:00/0000:00:03.0/class", "0x020000\n");
  host.write("/sys/devices/pci0000:00/0000:00:03.0/max_link_width", "16\n");
  std::filesystem::create_directories(host.root().string() + "/sys/bus/pci/devices");
  for (const std::string& path : {real, std::string("/sys/devices/pci0000:00/0000:00:03.0")}) {
    std::filesystem::create_symlink("../../.." + path.substr(4),
                                    host.root().string() + "/sys/bus/pci/devices" + path.substr(path.rfind('/')));
  }
  KernelTree fs(host.root());
  const Snapshot facts = pci_links(fs);
  EXPECT_EQ(value_of(facts, "pci.0000:c5:00.0.bridges"), "0000:c0:01.1 0000:c1:00.0 0000:c2:08.0");
  EXPECT_EQ(value_of(facts, "pci.0000:00:03.0.class"), "network");
  EXPECT_EQ(value_of(facts, "pci.0000:00:03.0.bridges"), "") << "a virtual machine";
}

TEST(PciLinks, AreThoseOfCardsBeforeThoseOfTheirVirtualFunctions) {
  const TestHost host;
  const std::string devices = "/sys/bus/pci/devices/";
  for (int i = 0; i < 70; ++i) {
    const std::string address = "0000:01:0" + std::to_string(i / 8) + '.' + std::to_string(i % 8);
    host.write(devices + address + "/class", "0x020000\n");
    host.write(devices + address + "/max_link_width", "16\n");
    host.write(devices + address + "/physfn/class", "0x020000\n");
  }
  host.write(devices + "0000:c1:00.0/class", "0x030200\n");
  host.write(devices + "0000:c1:00.0/max_link_width", "16\n");
  KernelTree fs(host.root());
  const Snapshot facts = pci_links(fs);
  EXPECT_EQ(value_of(facts, "pci.0000:c1:00.0.class"), "gpu");
  EXPECT_EQ(value_of(facts, "pci.0000:01:00.0.class"), "network") << "where there is room";
}

TEST(PciLinks, LeaveAloneWhatSleepsAndWhatIsNoAdapter) {
  const TestHost host;
  const auto card = [&](const std::string& address, const std::string& kind) {
    host.write("/sys/bus/pci/devices/" + address + "/class", kind);
    host.write("/sys/bus/pci/devices/" + address + "/max_link_width", "16\n");
  };
  card("0000:01:00.0", "0x030200\n");
  card("0000:02:00.0", "0x060400\n");  // a bridge
  card("0000:03:00.0", "0x010802\n");
  host.write("/sys/bus/pci/devices/0000:03:00.0/power/runtime_status", "suspended\n");
  host.write("/sys/bus/pci/devices/0000:04:00.0/class", "0x020000\n");  // not on PCI Express
  KernelTree fs(host.root());
  const Snapshot facts = pci_links(fs);
  EXPECT_EQ(value_of(facts, "pci.0000:01:00.0.class"), "gpu");
  for (const char* other : {"2", "3", "4"}) {
    EXPECT_EQ(value_of(facts, "pci.0000:0" + std::string(other) + ":00.0.class"), "no such fact") << other;
  }
}

TEST(GpuDriver, TellsWhetherTheFabricCanReachTheMemoryOfGpus) {
  const TestHost host;
  KernelTree fs(host.root());
  EXPECT_TRUE(gpu_driver(fs).empty()) << "no NVIDIA driver";
  host.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
  EXPECT_EQ(value_of(gpu_driver(fs), "gpu_driver.kernel_module"), "proprietary");
  EXPECT_EQ(value_of(gpu_driver(fs), "gpu_driver.version"), "550.54.15");
  EXPECT_EQ(value_of(gpu_driver(fs), "gpu_driver.peer_memory"), "not loaded");
  host.write("/sys/module/nvidia_peermem/refcnt", "0\n");
  EXPECT_EQ(value_of(gpu_driver(fs), "gpu_driver.peer_memory"), "loaded");
  host.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15\n");
  EXPECT_EQ(value_of(gpu_driver(fs), "gpu_driver.kernel_module"), "open");
}

TEST(CoreThreads, AreToldOncePerCore) {
  const TestHost host;
  const auto threads = [&](int cpu, const std::string& list) {
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list);
  };
  std::vector<int> cpus;
  for (int cpu = 0; cpu < 60; ++cpu) {
    threads(cpu, std::to_string(cpu % 30) + ',' + std::to_string(cpu % 30 + 30) + '\n');
    cpus.push_back(cpu);
  }
  KernelTree fs(host.root());
  const Snapshot facts = core_threads(fs, cpus);
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_TRUE(value_of(facts, "cpu_threads.0").starts_with("0,30 1,31 "));
  EXPECT_EQ(value_of(facts, "cpu_threads.1"), "24,54 25,55 26,56 27,57 28,58 29,59");
  host.write("/sys/devices/system/cpu/smt/active", "0\n");
  EXPECT_TRUE(core_threads(fs, cpus).empty());
}

TEST(CountedSinceStart, SumsMemoryErrorsOfAllControllers) {
  const TestHost host;
  host.write("/proc/uptime", "86400.51 170000.00\n");
  host.write("/sys/devices/system/edac/mc/mc0/ce_count", "3\n");
  host.write("/sys/devices/system/edac/mc/mc1/ce_count", "4\n");
  host.write("/sys/devices/system/edac/mc/power/control", "auto\n");
  KernelTree fs(host.root());
  const Snapshot facts = counted_since_start(fs);
  EXPECT_EQ(value_of(facts, "since_start.seconds"), "86400");
  EXPECT_EQ(value_of(facts, "since_start.memory_errors_corrected"), "7");
  EXPECT_EQ(value_of(facts, "since_start.memory_errors_uncorrected"), "");
}

TEST(ClockState, IsThatOfThisMachineOnlyOnThisMachine) {
  const TestHost host;
  KernelTree copy(host.root());
  EXPECT_TRUE(clock_state(copy).empty());
  KernelTree live;
  const Snapshot facts = clock_state(live);
  const std::string synchronised = value_of(facts, "clock.synchronised");
  EXPECT_TRUE(synchronised == "yes" || synchronised == "no") << synchronised;
  EXPECT_NE(value_of(facts, "clock_state.max_error_ns"), "no such fact");
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

TEST(Firmware, MicrocodeAndMitigationsAreThoseOfTheNode) {
  const TestHost host;
  host.write("/sys/class/dmi/id/bios_version", "2.7.4\n");
  host.write("/sys/class/dmi/id/bios_date", "03/14/2025\n");
  host.write("/sys/class/dmi/id/product_name", "PowerEdge R760\n");
  host.write("/proc/cpuinfo",
             "processor\t: 0\nmodel name\t: Xeon 8480\nmicrocode\t: 0x2b000603\n\n"
             "processor\t: 1\nmodel name\t: Xeon 8480\nmicrocode\t: 0x2b000603\n");
  host.write("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
  host.write("/sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable; SMT vulnerable\n");
  host.write("/proc/cmdline", "root=/dev/sda1 password=secret mitigations=auto mitigations=off\n");
  KernelTree fs(host.root());
  const Host looked = Host::look(fs);
  const Snapshot facts = take_snapshot(fs, looked, nullptr);
  EXPECT_EQ(value_of(facts, "firmware.version"), "2.7.4");
  EXPECT_EQ(value_of(facts, "firmware.date"), "03/14/2025");
  EXPECT_EQ(value_of(facts, "machine.model"), "PowerEdge R760");
  EXPECT_EQ(value_of(facts, "cpu.model"), "Xeon 8480");
  EXPECT_EQ(value_of(facts, "cpu.microcode"), "0x2b000603");
  EXPECT_EQ(value_of(facts, "cpu.vulnerability.meltdown"), "Mitigation: PTI");
  EXPECT_EQ(value_of(facts, "cpu.vulnerability.mds"), "Vulnerable; SMT vulnerable");
  EXPECT_EQ(value_of(facts, "kernel.mitigations"), "off");
  for (const auto& [key, value] : facts) EXPECT_EQ(value.find("secret"), std::string::npos) << key;
  host.write("/proc/cpuinfo", "processor\t: 0\nmicrocode\t: 0x1\n\nprocessor\t: 1\nmicrocode\t: 0x2\n");
  EXPECT_EQ(value_of(take_snapshot(fs, looked, nullptr), "cpu.microcode"), "0x1 0; 0x2 1");
}

TEST(ClockSettings, AreThoseOfEachCpu) {
  const TestHost host;
  host.write("/sys/devices/system/cpu/online", "0-3\n");
  const auto put = [&](int cpu, const std::string& file, const std::string& value) {
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/" + file, value + "\n");
  };
  for (int cpu = 0; cpu < 4; ++cpu) {
    put(cpu, "scaling_driver", "acpi-cpufreq");
    put(cpu, "scaling_governor", cpu < 3 ? "performance" : "powersave");
    if (cpu > 0) put(cpu, "scaling_max_freq", "3000000");
  }
  KernelTree fs(host.root());
  const Host looked = Host::look(fs);
  const Snapshot facts = take_snapshot(fs, looked, nullptr);
  EXPECT_EQ(value_of(facts, "cpu.governor"), "performance 0-2; powersave 3");
  EXPECT_EQ(value_of(facts, "cpu.frequency_driver"), "acpi-cpufreq");
  EXPECT_EQ(value_of(facts, "cpu.frequency_limit"), "3000000 1-3") << "of cpu0 nothing is known";
  EXPECT_EQ(value_of(facts, "cpu.energy_preference"), "no such fact");
}

TEST(Firmware, IsNotToldWhereNothingTellsIt) {
  const TestHost host;
  KernelTree fs(host.root());
  const Host looked = Host::look(fs);
  for (const auto& [key, value] : take_snapshot(fs, looked, nullptr)) {
    for (const char* unknown : {"firmware.", "machine.", "cpu.microcode", "cpu.vulnerability.", "kernel.mitigations"}) {
      EXPECT_FALSE(key.starts_with(unknown)) << key << " is " << value;
    }
  }
}

TEST(Mitigations, AreTheLastOptionForTheKernelItself) {
  EXPECT_EQ(mitigations_option("quiet mitigations=auto,nosmt console=ttyS0"), "auto,nosmt");
  EXPECT_EQ(mitigations_option("quiet nomitigations=off"), "not set");
  EXPECT_EQ(mitigations_option("quiet -- mitigations=off"), "not set") << "a word for the first process";
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
}  // namespace reveal::tests::snapshot_test
