#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::all_probes_test {
namespace {

/// A text for each probe that reads files.
const std::vector<std::pair<std::string, std::string>>& texts() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"/proc/stat", "cpu0 10 1 2 3 4 5 6 7 8 9\nintr 5 6\nctxt 7\n"},
      {"/proc/meminfo", "MemTotal: 5 kB\nHugePages_Free: 3\n"},
      {"/proc/vmstat", "nr_dirty 4\npgfault 7\n"},
      {"/proc/interrupts", "  CPU0 CPU1\n 24: 1 2 x\nLOC: 3 4 y\n"},
      {"/proc/softirqs", "  CPU0 CPU1\n NET_RX: 1 2\n"},
      {"/proc/diskstats", "254 0 vda 10 2 16 30 5 1 8 7 3 40 50 0 0 0 0 6 9\n"},
      {"/proc/net/dev", "h\nh\n eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"},
      {"/proc/net/snmp", "Ip: A B\nIp: 1 2\n"},
      {"/proc/net/netstat", "TcpExt: A B\nTcpExt: 1 2\n"},
      {"/proc/net/snmp6", "Ip6InReceives \t12\nIcmp6OutType133 \t1\n"},
      {"/proc/net/sockstat", "sockets: used 11\nTCP: inuse 4 orphan 0 mem 7\n"},
      {"/proc/net/sockstat6", "TCP6: inuse 0\n"},
      {"/proc/net/stat/arp_cache", "entries  table_fulls\n00000003 0000000f\n"},
      {"/proc/buddyinfo", "Node 0, zone   Normal  11630   2115 \n"},
      {"/proc/zoneinfo", "Node 0, zone   Normal\n  pages free     3840\n        min      10\n"},
      {"/proc/sys/fs/inode-nr", "272067\t440\n"},
      {"/proc/net/softnet_stat", "0000000f 0 1 0\n"},
      {"/proc/pressure/cpu", "some avg10=0 total=5\n"},
      {"/sys/devices/system/node/node0/numastat", "numa_hit 1\n"},
      {"/sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 1 kB\n"},
      {"/sys/devices/system/node/node0/vmstat", "nr_dirtied 1\n"},
      {"/sys/devices/system/node/node1/vmstat", "nr_dirtied 1\nnr_written 2\n"},
      {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2600000\n"},
      {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3500000\n"},
      {"/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"},
      {"/sys/class/hwmon/hwmon0/name", "k10temp\n"},
      {"/sys/class/hwmon/hwmon0/temp1_input", "61125\n"},
      {"/sys/class/thermal/cooling_device0/type", "Processor\n"},
      {"/sys/class/thermal/cooling_device0/cur_state", "2\n"},
      {"/sys/class/powercap/intel-rapl:0/energy_uj", "262143328000\n"},
      {"/sys/devices/system/edac/mc/mc0/ce_count", "12\n"},
      {"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n"},
      {"/sys/kernel/debug/bdi/254:0/stats", "BdiWriteback: 12 kB\nBdiDirtied: 9 kB\n"},
      {"/proc/fs/lustre/llite/scratch-ffff/stats",
       "open 5 samples [usecs] 3 90 210\nread_bytes 1 samples [bytes] 1 1 1\n"},
      {"/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "12\n"},
      {"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "3\n"},
      {"/sys/class/net/eth0/device/vendor", "0x15b3\n"},
      {"/ethtool/eth0", "     rx_prio3_pause: 7\n"},
      {"/sys/class/drm/renderD128/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c1:00.0\n"},
      {"/sys/bus/pci/devices/0000:c1:00.0/gpu_busy_percent", "97\n"},
      {"/sys/class/drm/renderD129/device/uevent", "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0\n"},
      {"/sys/bus/pci/devices/0000:03:00.0/tile0/gt0/freq0/act_freq", "2000\n"},
      {"/proc/net/rpc/nfs", "net 0 0\nrpc 9 1 9\n"},
      {"/proc/self/mountstats",
       "device a:/b mounted on /c with fstype nfs4\n bytes: 1 2 3 4 5 6 7 8\n READ: 1 1 0 4 4 1 2 3 0\n"}};
  return all;
}

/// Probes without a text above: they do not open on a copied tree without a job.
struct OtherProbe {
  std::string_view name;
  std::string_view why;
};
constexpr OtherProbe kOtherProbes[] = {
    {"file_system", "asks the kernel by statfs(2)"},
    {"gpu", "asks the driver's library"},
    {"job", "needs a job"},
    {"job_cgroup", "needs a job"},
    {"job_cpus", "needs a job"},
    {"job_groups", "needs a job"},
    {"job_memory", "needs a job"},
    {"outsiders", "needs a job"},
    {"perf_hardware", "opens counters of the running kernel"},
    {"perf_platform", "opens counters of the running kernel"},
    {"perf_software", "opens counters of the running kernel"},
    {"process", "needs a job"},
    {"process_numa", "needs a job"},
    {"process_quota", "needs a job"},
    {"process_status", "needs a job"},
    {"qdisc", "asks the kernel by netlink"},
    {"rdma_queues", "asks the kernel by netlink"},
    {"site", "reads files that a site names"},
    {"stack", "attaches to processes of a job"},
    {"python", "is off by default, and reads the memory of processes of a job"},
    {"tcp_peers", "asks the kernel by netlink"},
};

TEST(AllProbes, HaveATextHereOrAReason) {
  const TestHost host;
  for (const auto& [path, text] : texts()) host.write(path, text);
  KernelTree fs(host.root());
  TraceSink sink;
  const Sampler sampler(fs, sink, {}, {1, 1});
  std::set<std::string_view> others;
  for (const OtherProbe& other : kOtherProbes) others.insert(other.name);
  for (const Coverage& fact : sampler.coverage()) {
    const bool other = others.erase(fact.probe) > 0;
    const bool opened = fact.state == Coverage::State::ok;
    EXPECT_TRUE(opened || other) << fact.probe << " is not tried: add a text that it reads, or a reason ("
                                 << fact.reason << ")";
    EXPECT_FALSE(opened && other) << fact.probe << " opens on these texts: it needs no reason";
  }
  for (const std::string_view name : others) ADD_FAILURE() << name << " is no probe";
}

TEST(AllProbes, SurviveTextsThatAreCutOffAnywhere) {
  const TestHost whole;
  for (const auto& [path, text] : texts()) whole.write(path, text);
  KernelTree fs(whole.root());
  TraceSink sink;
  Sampler sampler(fs, sink, {}, {1, 1});
  sampler.look_first();
  for (const auto& [path, text] : texts()) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
      whole.write(path, text.substr(0, size));
      sampler.sample({.time = {2, 2}, .number = 0});
      whole.write(path, text.substr(size));
      sampler.sample({.time = {3, 3}, .number = 0});
    }
    whole.write(path, std::string(9000, ':') + std::string("\n99999999999999999999999999999999999 kB\n\0\x80\xff", 44));
    sampler.sample({.time = {4, 4}, .number = 0});
    whole.write(path, text);
  }
  sampler.sample({.time = {5, 5}, .number = 0});
  EXPECT_EQ(sink.find("memory/vmstat")->value("vmstat.pgfault"), 7);
}

}  // namespace
}  // namespace reveal::tests::all_probes_test
