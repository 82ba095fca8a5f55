// A copied tree stands for its host, and never for this one: facts that it does not contain are missing.
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "core/job/slurm_step.h"
#include "core/snapshot/snapshot.h"
#include "test_host.h"

namespace reveal::tests::replay_test {
namespace {

std::string value(const Snapshot& facts, std::string_view key) {
  for (const auto& [name, text] : facts) {
    if (name == key) return text;
  }
  return "missing";
}

TEST(CopiedTree, WithoutASizeOfPagesHasNoValuesInPages) {
  const TestHost host;
  host.remove("/proc/self/smaps");
  host.write("/proc/net/sockstat", "sockets: used 7\nTCP: inuse 4 orphan 0 tw 0 alloc 6 mem 1\nUDP: inuse 1 mem 9\n");
  ProbeBench bench(host, "sockets");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_inuse"), 4);
  EXPECT_EQ(bench.value("network/socket_memory", "sockets.tcp_mem"), kMissing);
  EXPECT_EQ(bench.value("network/socket_memory", "sockets.udp_mem"), kMissing);
  EXPECT_NE(bench.coverage().reason.find("pages"), std::string::npos) << bench.coverage().reason;
  KernelTree fs(host.root());
  EXPECT_EQ(value(take_snapshot(fs, Host::look(fs), nullptr), "memory.page_bytes"), "missing");
}

TEST(CopiedTree, TakesPagesAndTicksFromWhatTheKernelToldAProgram) {
  const TestHost host;
  constexpr std::array<std::uint64_t, 6> kVector = {17, 1024, 6, 65536, 0, 0};  // AT_CLKTCK, AT_PAGESZ
  host.write("/proc/self/auxv", std::string(reinterpret_cast<const char*>(kVector.data()), sizeof kVector));
  KernelTree fs(host.root());
  EXPECT_EQ(Host::look(fs).page_bytes, 65536);
  EXPECT_EQ(Host::look(fs).tick_ns, 1'000'000'000 / 1024);
}

TEST(CopiedTree, CountsInHundredthsOfASecondButOnTwoOldArchitectures) {
  const TestHost host;
  host.write("/proc/stat", "cpu0 1 0 0 0 0 0 0 0 0 0\nctxt 7\n");
  KernelTree fs(host.root());
  EXPECT_EQ(Host::look(fs).tick_ns, 10'000'000);
  host.write("/proc/cpuinfo", "processor  : 0\nvendor     : GenuineIntel\narch       : IA-64\n");
  ProbeBench bench(host, "cpu");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu0"), kMissing);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.context_switches"), 7);
  EXPECT_NE(bench.coverage().reason.find("clock ticks"), std::string::npos) << bench.coverage().reason;
}

TEST(CopiedTree, WithoutATopologyDoesNotGetOurs) {
  const TestHost host;
  KernelTree fs(host.root());
  EXPECT_EQ(topology_xml(fs), "");
}

TEST(CopiedTree, HasTheTopologyOfItsFilesAndNotOurProcessor) {
  const TestHost host;
  const std::string cpus = "/sys/devices/system/cpu/";
  for (const std::string cpu : {"0", "1", "2"}) {
    const std::string folder = cpus + "cpu" + cpu + "/topology/";
    host.write(folder + "core_id", cpu + "\n");
    host.write(folder + "physical_package_id", "0\n");
    host.write(folder + "core_cpus", std::to_string(1 << std::stoi(cpu)) + "\n");
    host.write(folder + "thread_siblings", std::to_string(1 << std::stoi(cpu)) + "\n");
    host.write(folder + "package_cpus", "7\n");
    host.write(folder + "core_siblings", "7\n");
  }
  host.write(cpus + "online", "0-2\n");
  host.write(cpus + "possible", "0-2\n");
  host.write(cpus + "present", "0-2\n");
  host.write("/proc/cpuinfo", "processor : 0\nmodel name : Fantasy 3000\n\nprocessor : 1\nmodel name : Fantasy 3000\n");
  host.write("/proc/meminfo", "MemTotal: 1000 kB\n");
  KernelTree fs(host.root());
  const std::string xml = topology_xml(fs);
  EXPECT_NE(xml.find("os_index=\"2\""), std::string::npos) << xml;
  EXPECT_EQ(xml.find("os_index=\"3\""), std::string::npos);
  EXPECT_EQ(xml.find("Backend\" value=\"x86"), std::string::npos);
  std::ifstream own("/proc/cpuinfo");
  std::stringstream text;
  text << own.rdbuf();
  const std::size_t model = text.str().find("model name\t: ");
  if (model == std::string::npos) return;
  const std::string name = text.str().substr(model + 13, text.str().find('\n', model) - model - 13);
  EXPECT_EQ(xml.find(name), std::string::npos) << name;
}

TEST(CopiedTree, WithoutAListOfCpusHasThoseOfThePresentOnesOrOfTheStatistics) {
  const TestHost host;
  host.remove("/sys/devices/system/cpu/online");
  KernelTree fs(host.root());
  EXPECT_EQ(Host::look(fs).cpus_online, std::vector<int>{0});
  host.write("/proc/stat", "cpu  9 0 0 0\ncpu0 1 0 0 0\ncpu2 1 0 0 0\ncpu17 1 0 0 0\nintr 5\n");
  EXPECT_EQ(Host::look(fs).cpus_online, (std::vector<int>{0, 2, 17}));
  host.write("/sys/devices/system/cpu/present", "0-3\n");
  EXPECT_EQ(Host::look(fs).cpus_online, (std::vector<int>{0, 1, 2, 3}));
}

TEST(StepDaemon, IsNotAskedForItsCommandLineBeforeItIsKnownToBeRoots) {
  const TestHost host;
  host.write("/proc/77/cmdline", "slurmstepd: [4711.0]");
  host.write("/proc/77/status", "Name:\tslurmstepd\nTgid:\t77\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\n");
  const std::filesystem::path record = host.root() / "record";
  KernelTree fs(host.root());
  fs.record_to(record);
  EXPECT_EQ(read_step_daemon(fs, 77).state, StepDaemon::State::gone);
  fs.end_recording();
  std::ifstream file(record / "ticks.rec");
  std::stringstream read;
  read << file.rdbuf();
  EXPECT_NE(read.str().find("/proc/77/status"), std::string::npos);
  EXPECT_EQ(read.str().find("/proc/77/cmdline"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::replay_test
