// Memory, storage, sensors and limits on small hosts made of texts as kernels write them.
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <chrono>
#include <thread>

#include "test_host.h"

namespace reveal {
namespace {

TEST(Softnet, CountsSteeredAndLimitedPacketsAndTheBacklog) {
  TestHost host;
  // Linux 6.18: the cpu's number and its two queues at the end.
  host.write("/proc/net/softnet_stat",
             "1737d0fb 00000409 00000014 00000000 00000000 00000000 00000000 00000000 00000000 00003c53 00000002 "
             "00000007 00000000 00000004 00000003\n");
  ProbeBench bench(host, "softnet");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.received_rps", "cpu0"), 0x3c53);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.flow_limited", "cpu0"), 2);
  EXPECT_EQ(bench.value("interrupts/backlog", "softnet.backlog", "cpu0"), 7);
  host.write("/proc/net/softnet_stat", "00000001 00000000 00000000 0 0 0 0 0 0 0 00000000\n0 0 0\n");  // before 5.14
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.flow_limited", "cpu0"), 0);
  EXPECT_EQ(bench.value("interrupts/backlog", "softnet.backlog", "cpu0"), kMissing);
}

TEST(Softnet, GivesNoCpuThePacketsOfAnotherWhenOneGoesOffLine) {
  TestHost host;
  const std::string online = "/sys/devices/system/cpu/online";
  const auto lines = [&host](const std::vector<std::string>& processed) {  // before 5.14
    std::string text;
    for (const std::string& number : processed) text += number + " 0 0 0 0 0 0 0 0 0 0\n";
    host.write("/proc/net/softnet_stat", text);
  };
  host.write(online, "0-3\n");
  lines({"1000", "2000", "3000", "4000"});
  ProbeBench bench(host, "softnet");
  const auto processed = [&bench](const char* cpu) {
    return bench.value("interrupts/softnet", "softnet.processed", cpu);
  };
  bench.sample();
  EXPECT_EQ(processed("cpu1"), 0x2000);
  lines({"1000", "3010", "4010"});
  bench.sample();
  EXPECT_EQ(processed("cpu1"), kMissing) << "three lines, and four cpus";
  EXPECT_EQ(processed("cpu2"), kMissing);
  host.write(online, "0,2-3\n");
  bench.sample();
  EXPECT_EQ(processed("cpu2"), kMissing) << "in which of the two readings it changed is not known";
  bench.sample();
  EXPECT_EQ(processed("cpu0"), 0x1000);
  EXPECT_EQ(processed("cpu1"), kMissing);
  EXPECT_EQ(processed("cpu2"), 0x3010);
  EXPECT_EQ(processed("cpu3"), 0x4010);
}

TEST(HugePages, AreBytesOfEverySizeOnTheHostAndOnEachNode) {
  TestHost host;
  const std::string all = "/sys/kernel/mm/hugepages/hugepages-1048576kB";
  host.write(all + "/nr_hugepages", "16\n");
  host.write(all + "/free_hugepages", "15\n");
  host.write(all + "/resv_hugepages", "1\n");
  host.write(all + "/surplus_hugepages", "0\n");
  host.write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
  host.write("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "8\n");
  host.write("/sys/devices/system/node/node1/hugepages/hugepages-weird/nr_hugepages", "8\n");
  host.write("/sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 1 kB\n");
  ProbeBench bench(host, "hugepages");
  bench.sample();
  const std::string family = "memory/hugepages_by_size";
  EXPECT_EQ(bench.value(family, "hugepages.total", "1048576kB"), 16LL << 30);
  EXPECT_EQ(bench.value(family, "hugepages.free", "1048576kB"), 15LL << 30);
  EXPECT_EQ(bench.value(family, "hugepages.reserved", "1048576kB"), 1LL << 30);
  EXPECT_EQ(bench.value(family, "hugepages.total", "2048kB"), 6LL << 20);
  EXPECT_EQ(bench.value(family, "hugepages.total", "node1/1048576kB"), 8LL << 30);
  EXPECT_EQ(bench.family(family).channels().size(), 6U);
  host.write(all + "/nr_hugepages", "9223372036854775807\n");  // no such number of pages fits
  bench.sample();
  EXPECT_EQ(bench.value(family, "hugepages.total", "1048576kB"), kMissing);
}

TEST(MemoryErrors, AreCountedByControllerAndModule) {
  TestHost host;
  const std::string controller = "/sys/devices/system/edac/mc/mc0";
  host.write(controller + "/ce_count", "12\n");
  host.write(controller + "/ue_count", "0\n");
  host.write(controller + "/ce_noinfo_count", "1\n");
  host.write(controller + "/dimm0/dimm_label", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0\n");
  host.write(controller + "/dimm0/dimm_ce_count", "11\n");
  host.write(controller + "/dimm0/dimm_ue_count", "0\n");
  host.write(controller + "/csrow0/ce_count", "11\n");  // the same again
  ProbeBench bench(host, "memory_errors");
  bench.sample();
  EXPECT_EQ(bench.value("memory/errors", "edac.corrected", "mc0"), 12);
  EXPECT_EQ(bench.value("memory/errors", "edac.corrected_nowhere", "mc0"), 1);
  EXPECT_EQ(bench.value("memory/errors", "edac.corrected", "mc0/CPU_SrcID#0_MC#0_Chan#0_DIMM#0"), 11);
  EXPECT_EQ(bench.family("memory/errors").channels().size(), 5U);
  EXPECT_EQ(bench.family("memory/errors").spec().kind, Kind::event);
}

TEST(MemoryErrors, WithoutADriverAreAbsentWithAReason) {
  const TestHost host;
  const ProbeBench bench(host, "memory_errors");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("EDAC"), std::string::npos);
}

TEST(NumaVmstat, SaysWhatOtherTextsDoNotAndOnlyWhereThereAreSeveralNodes) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/vmstat", "nr_free_pages 5\nnr_dirtied 7\npgpromote_success 2\n");
  const ProbeBench alone(host, "numa_vmstat");
  EXPECT_EQ(alone.coverage().state, Coverage::State::absent);
  host.write("/sys/devices/system/node/node1/vmstat", "nr_free_pages 5\nnr_dirtied 9\npgpromote_suc");
  ProbeBench bench(host, "numa_vmstat");
  bench.sample();
  EXPECT_EQ(bench.value("memory/numa_vmstat", "numa_vm.nr_dirtied", "node0"), 7);
  EXPECT_EQ(bench.value("memory/numa_vmstat", "numa_vm.nr_dirtied", "node1"), 9);
  EXPECT_EQ(bench.value("memory/numa_vmstat", "numa_vm.pgpromote_success", "node0"), 2);
  EXPECT_EQ(bench.family("memory/numa_vmstat").channels().size(), 3U);
}

TEST(FreeBlocks, AreCountedBySizeAndZone) {
  TestHost host;
  host.write("/proc/buddyinfo",
             "Node 0, zone      DMA      0      1      3 \nNode 1, zone   Normal  11630   2115     14 \n");
  ProbeBench bench(host, "free_blocks");
  bench.sample();
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order2", "node0/DMA"), 3);
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order0", "node1/Normal"), 11630);
  EXPECT_EQ(bench.family("memory/free_blocks").channels().size(), 6U);
  host.write("/proc/buddyinfo",
             "Node 0, zone      DMA      0      1      3 \nNode 1, zone   Normal   9999   2115     15 \n");
  bench.sample();
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order0", "node1/Normal"), 9999);
  EXPECT_EQ(bench.value("memory/free_blocks", "free_blocks.order2", "node1/Normal"), 15);
}

TEST(Zones, HaveWatermarksAndNothingThatOthersSay) {
  TestHost host;
  const auto write = [&host](const std::string& free, const std::string& of_cpu) {
    host.write("/proc/zoneinfo",
               "Node 0, zone   Normal\n  per-node stats\n      nr_dirty     1160\n  pages free     " + free +
                   "\n        boost    0\n        min      10\n        low      13\n        managed  3840\n"
                   "        protection: (0, 0)\n      nr_free_pages 3840\n      nr_zone_write_pending 5\n"
                   "      numa_hit     7\n  pagesets\n    cpu: 0\n              count: " +
                   of_cpu +
                   "\n  vm stats threshold: 4\n  start_pfn:           1\nNode 0, zone  Movable\n  pages free     0\n"
                   "        min      32\n");
  };
  write("3840", "5");
  ProbeBench bench(host, "zones");
  for (const std::string free : {"3840", "3841", "99"}) {
    write(free, free);
    bench.sample();
    EXPECT_EQ(bench.value("memory/zones", "zone.free", "node0/Normal"), std::stoi(free));
    EXPECT_EQ(bench.value("memory/zones", "zone.min", "node0/Normal"), 10);
    EXPECT_EQ(bench.value("memory/zones", "zone.zone_write_pending", "node0/Normal"), 5);
    EXPECT_EQ(bench.value("memory/zones", "zone.min", "node0/Movable"), 32);
  }
  EXPECT_EQ(bench.family("memory/zones").channels().size(), 7U);
}

TEST(Energy, WrapsAtItsRangeAndIsNeverNegative) {
  TestHost host;
  const std::string package = "/sys/class/powercap/intel-rapl:0";
  host.write(package + "/name", "package-0\n");
  host.write(package + "/max_energy_range_uj", "262143328850\n");
  host.write(package + "/energy_uj", "262143328000\n");
  host.write("/sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  host.write("/sys/class/powercap/intel-rapl:0:1/energy_uj", "5\n");
  host.write("/sys/class/powercap/intel-rapl/enabled", "1\n");
  ProbeBench bench(host, "energy");
  EXPECT_EQ(bench.value("cpu/energy", "energy.package", "0"), 262143328000);
  host.write(package + "/energy_uj", "150\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/energy", "energy.package", "0"), 262143328850 + 150);
  EXPECT_EQ(bench.value("cpu/energy", "energy.dram", "0:1"), 5);
  EXPECT_EQ(bench.family("cpu/energy").spec().unit, Unit::microjoules);
  host.write(package + "/energy_uj", "");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/energy", "energy.package", "0"), kMissing);
}

TEST(Temperature, ReadsTheCpusOwnSensorsAndLeavesSlowOnesAlone) {
  TestHost host;
  host.write("/sys/class/hwmon/hwmon0/name", "coretemp\n");
  host.write("/sys/class/hwmon/hwmon0/temp1_input", "61000\n");
  host.write("/sys/class/hwmon/hwmon0/temp1_label", "Package id 0\n");
  host.write("/sys/class/hwmon/hwmon0/temp2_input", "-5400\n");
  host.write("/sys/class/hwmon/hwmon0/temp2_label", "Core 0\n");
  host.write("/sys/class/hwmon/hwmon1/name", "drivetemp\n");
  host.write("/sys/class/hwmon/hwmon1/temp1_input", "30000\n");
  ProbeBench bench(host, "temperature");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/package_temperature", "temperature.package", "coretemp0.Package_id_0"), 61);
  EXPECT_EQ(bench.value("cpu/core_temperature", "temperature.core", "core0"), -5);
  EXPECT_EQ(bench.family("cpu/package_temperature").channels().size(), 1U);
  host.remove("/sys/class/hwmon/hwmon0");
  const ProbeBench left(host, "temperature");
  EXPECT_NE(left.coverage().reason.find("drivetemp"), std::string::npos) << left.coverage().reason;
}

TEST(ThermalThrottle, CountsACoreOnceAndAPackageOnce) {
  TestHost host;
  for (int cpu = 0; cpu < 2; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    host.write(folder + "/thermal_throttle/core_throttle_count", "4\n");
    host.write(folder + "/thermal_throttle/core_throttle_total_time_ms", "250\n");
    host.write(folder + "/thermal_throttle/package_throttle_count", "6\n");
    host.write(folder + "/topology/thread_siblings_list", "0-1\n");
    host.write(folder + "/topology/physical_package_id", "0\n");
  }
  ProbeBench bench(host, "thermal_throttle");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/throttle_counts", "throttle.core_count", "cpu0"), 4);
  EXPECT_EQ(bench.value("cpu/throttle_counts", "throttle.core_count", "cpu1"), kMissing);
  EXPECT_EQ(bench.value("cpu/throttle_times", "throttle.core_time", "cpu0"), 250'000'000);
  EXPECT_EQ(bench.value("cpu/package_throttle_counts", "throttle.package_count", "package0"), 6);
  EXPECT_EQ(bench.value("cpu/package_throttle_times", "throttle.package_time", "package0"), kMissing);
}

TEST(FrequencyLimits, AreFollowed) {
  TestHost host;
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3500000\n");
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", "800000\n");
  ProbeBench bench(host, "cpu_frequency_limits");
  host.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1200000\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/frequency_limits", "cpu.frequency_ceiling", "cpu0"), 1'200'000'000);
  EXPECT_EQ(bench.value("cpu/frequency_limits", "cpu.frequency_floor", "cpu0"), 800'000'000);
}

constexpr const char* kMountStats =
    "device proc mounted on /proc with fstype proc\n"
    "device filer:/export/home mounted on /home with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,rsize=1048576\n"
    "\tage:\t3600\n"
    "\tevents:\t10 20 0 0\n"
    "\tbytes:\t4096 8192 0 0 16384 32768 4 8\n"
    "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\txprt:\ttcp 0 0 2 0 24 9000 8990 10 100 0 2 50 60\n"
    "\tper-op statistics\n"
    "\t        NULL: 1 1 0 44 24 0 3 3 0\n"
    "\t        READ: 100 103 1 22000 1600000 5 700 710 0\n"
    "\t       WRITE: 0 0 0 0 0 0 0 0 0\n"
    "\t     SYMLINK: 2 2 0 400 500 1 2 3 0\n"
    "\t      RENAME: 3 3 0 600 700 1 2 3 0\n"
    "\n";

TEST(Nfs, CountsRequestsOfAMountByKindWithTheirTime) {
  TestHost host;
  host.write("/proc/self/mountstats", kMountStats);
  host.write("/proc/net/rpc/nfs", "net 0 0 0 0\nrpc 9000 13 9100\nproc4 2 1 2\n");
  ProbeBench bench(host, "nfs");
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:READ"), 100);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.retransmissions", "/home:READ"), 3);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.timeouts", "/home:READ"), 1);
  EXPECT_EQ(bench.value("storage/nfs_bytes", "nfs.received_bytes", "/home:READ"), 1'600'000);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.round_trip_time", "/home:READ"), 700'000'000);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.execute_time", "/home:READ"), 710'000'000);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:WRITE"), kMissing);  // never happened
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:other"), 1 + 2 + 3);
  EXPECT_EQ(bench.value("storage/nfs_mount", "nfs.server_read_bytes", "/home"), 16384);
  EXPECT_EQ(bench.value("storage/nfs_rpc", "nfs.rpc_calls"), 9000);
  EXPECT_EQ(bench.value("storage/nfs_rpc", "nfs.rpc_retransmissions"), 13);
}

TEST(Nfs, CountsAKindThatBeginsFromNothing) {
  TestHost host;
  std::string text = kMountStats;
  host.write("/proc/self/mountstats", text);
  ProbeBench bench(host, "nfs");
  bench.sample();
  const std::string none = "WRITE: 0 0 0 0 0 0 0 0 0";
  host.write("/proc/self/mountstats", text.replace(text.find(none), none.size(), "WRITE: 5 6 0 900 400 1 2 3 0"));
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:WRITE"), 0);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.execute_time", "/home:WRITE"), 0);
  bench.sample();
  EXPECT_EQ(bench.value("storage/nfs", "nfs.requests", "/home:WRITE"), 5);
  EXPECT_EQ(bench.value("storage/nfs", "nfs.retransmissions", "/home:WRITE"), 1);
  EXPECT_EQ(bench.value("storage/nfs_bytes", "nfs.sent_bytes", "/home:WRITE"), 900);
  EXPECT_EQ(bench.value("storage/nfs_time", "nfs.execute_time", "/home:WRITE"), 3'000'000);
}

TEST(Nfs, SurvivesATextCutOffAnywhere) {
  TestHost host;
  const std::string whole = kMountStats;
  host.write("/proc/self/mountstats", whole);
  ProbeBench bench(host, "nfs");
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    host.write("/proc/self/mountstats", whole.substr(0, size));
    bench.sample();
    const std::int64_t reads = bench.value("storage/nfs", "nfs.requests", "/home:READ");
    EXPECT_TRUE(reads == kMissing || reads == 100) << size;
  }
}

TEST(Nfs, IsAbsentWhereNothingIsMountedByIt) {
  TestHost host;
  host.write("/proc/self/mountstats", "device proc mounted on /proc with fstype proc\n");
  const ProbeBench bench(host, "nfs");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  host.write("/proc/net/rpc/nfs", "net 0 0 0 0\nrpc 0 0 0\n");
  ProbeBench loaded(host, "nfs");
  host.write("/proc/self/mountstats", kMountStats);  // mounted on demand
  loaded.sample();
  EXPECT_EQ(loaded.value("storage/nfs", "nfs.requests", "/home:READ"), 100);
}

TEST(Lustre, ReadsOldAndNewForms) {
  TestHost host;
  host.write("/proc/fs/lustre/llite/scratch-ffff8881f2a3c000/stats",
             "snapshot_time             1700000000.123456789 secs.nsecs\n"
             "read_bytes                12 samples [bytes] 1 4096 49152 201326592\n"
             "open                      5 samples [usecs] 3 90 210 9000\n"
             "close                     4 samples [regs]\n"
             "getattr                   x samples [regs]\n");
  ProbeBench bench(host, "lustre");
  bench.sample();
  EXPECT_EQ(bench.value("storage/lustre_bytes", "lustre.read_bytes", "scratch"), 49152);
  EXPECT_EQ(bench.value("storage/lustre_calls", "lustre.read_bytes_calls", "scratch"), 12);
  EXPECT_EQ(bench.value("storage/lustre_calls", "lustre.open", "scratch"), 5);
  EXPECT_EQ(bench.value("storage/lustre_time", "lustre.open_time", "scratch"), 210'000);
  EXPECT_EQ(bench.value("storage/lustre_calls", "lustre.close", "scratch"), 4);
  EXPECT_EQ(bench.family("storage/lustre_calls").channels().size(), 3U);
}

TEST(Writeback, IsBytesOfDevicesThatWereEverWrittenTo) {
  TestHost host;
  host.write(
      "/sys/kernel/debug/bdi/254:0/stats",
      "BdiWriteback:               12 kB\nBdiReclaimable:           4096 kB\nBdiDirtyThresh:        2000000 kB\n"
      "DirtyThresh:           4000000 kB\nBackgroundThresh:      2000000 kB\nBdiDirtied:            9000000 kB\n"
      "BdiWritten:            8900000 kB\nBdiWriteBandwidth:       102400 kBps\nb_dirty:                     3\n");
  host.write("/sys/kernel/debug/bdi/7:0/stats", "BdiDirtied:            1 kB\n");
  host.write("/sys/kernel/debug/bdi/0:50/stats", "BdiWriteback:              0 kB\nBdiDirtied:            0 kB\n");
  ProbeBench bench(host, "writeback");
  bench.sample();
  EXPECT_EQ(bench.value("storage/writeback", "writeback.under_way", "254:0"), 12 * 1024);
  EXPECT_EQ(bench.value("storage/writeback", "writeback.waiting", "254:0"), 4096 * 1024);
  EXPECT_EQ(bench.value("storage/writeback", "writeback.bandwidth", "254:0"), 102400 * 1024);
  EXPECT_EQ(bench.value("storage/writeback_bytes", "writeback.written", "254:0"), 8'900'000LL * 1024);
  EXPECT_EQ(bench.family("storage/writeback").channels().size(), 4U);
}

void add_group(const TestHost& host, const std::string& folder, int current, const std::string& limit, int killed) {
  host.write(folder + "/memory.current", std::to_string(current) + '\n');
  host.write(folder + "/memory.max", limit + '\n');
  host.write(folder + "/memory.events",
             "low 0\nhigh 2\nmax 7\noom 1\noom_kill " + std::to_string(killed) + "\noom_group_kill 0\n");
  host.write(folder + "/pids.current", "9\n");
  host.write(folder + "/pids.max", "max\n");
  host.write(folder + "/cgroup.procs", "50\n");
}

TEST(JobGroups, SaysLimitsAndTheirEventsOfTheJobAndItsTasks) {
  TestHost host;
  host.process(50, 1, "launcher", 10, 5);
  host.process(51, 50, "solver", 10, 5);
  host.last_pid(51);
  host.write("/proc/50/cgroup", "0::/box\n");
  host.write("/proc/51/cgroup", "0::/box/step_0/task_1\n");
  host.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  const std::string job = "/sys/fs/cgroup/box";
  add_group(host, job, 1000, "4096", 3);
  add_group(host, job + "/step_0/task_1", 900, "max", 0);
  host.write(job + "/cpu.max", "150000 100000\n");
  ProbeBench bench(host, "job_groups", JobSource{.pid = 50});
  bench.sample();
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "job"), 1000);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory_limit", "job"), 4096);
  EXPECT_EQ(bench.value("job/group_events", "group.killed_for_memory", "job"), 3);
  EXPECT_EQ(bench.value("job/group_events", "group.memory_limit_hits", "job"), 7);
  EXPECT_EQ(bench.value("job/group_tasks", "group.tasks", "job"), 9);
  EXPECT_EQ(bench.value("job/group_tasks", "group.tasks_limit", "job"), kMissing);
  EXPECT_EQ(bench.value("job/group_cpu", "group.cpu_quota", "job"), 1'500'000'000);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "step_0/task_1"), 900);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory_limit", "step_0/task_1"), kMissing);
  host.remove(job + "/step_0/task_1");
  bench.sample();
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "step_0/task_1"), kMissing);
}

TEST(JobGroups, ReadsVersionOneAndItsWayOfSayingNoLimit) {
  TestHost host;
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  host.write("/proc/50/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n");
  host.write("/proc/self/mountinfo",
             "34 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "35 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  host.write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "5000\n");
  host.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("/sys/fs/cgroup/memory/box/memory.failcnt", "4\n");
  host.write("/sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  host.write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  host.write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  ProbeBench bench(host, "job_groups", JobSource{.pid = 50});
  bench.sample();
  EXPECT_EQ(bench.value("job/group_memory", "group.memory", "job"), 5000);
  EXPECT_EQ(bench.value("job/group_memory", "group.memory_limit", "job"), kMissing);
  EXPECT_EQ(bench.value("job/group_events", "group.memory_limit_hits", "job"), 4);
  EXPECT_EQ(bench.value("job/group_events", "group.killed_for_memory", "job"), 2);
  EXPECT_EQ(bench.value("job/group_cpu", "group.cpu_quota", "job"), kMissing);
  host.write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  bench.sample();
  EXPECT_EQ(bench.value("job/group_cpu", "group.cpu_quota", "job"), 500'000'000);
}

TEST(JobCgroup, IsTheJobsThoughTheCollectorAndItsChildrenAreInIt) {
  TestHost host;
  host.process(50, 1, "solver", 10, 5);
  host.process(60, 1, "reveal-collect", 1, 1);
  host.process(61, 60, "reveal-collect", 0, 0);
  host.process(70, 1, "somebody", 1, 1);
  host.last_pid(70);
  host.write("/proc/50/cgroup", "0::/box\n");
  host.write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  host.write("/sys/fs/cgroup/box/memory.current", "1000\n");
  host.write("/sys/fs/cgroup/box/cgroup.procs", "50\n60\n61\n");
  const auto coverage = [&host] {
    KernelTree fs(host.root());
    Sink sink;
    Sampler sampler(fs, sink, {.probes = {"job_cgroup"}, .job = JobSource{.pid = 50}, .own_pid = 60}, {1, 1});
    sampler.look_first();
    return sampler.coverage().front();
  };
  EXPECT_EQ(coverage().state, Coverage::State::ok) << coverage().reason;
  host.write("/sys/fs/cgroup/box/cgroup.procs", "50\n60\n61\n70\n");
  EXPECT_EQ(coverage().state, Coverage::State::absent);
}

/// Samples until the child has answered; a child that never does ends the test's patience, not the test.
std::int64_t answered(ProbeBench& bench, const std::string& family, const std::string& metric,
                      const std::string& instance) {
  for (int i = 0; i < 2000; ++i) {
    bench.sample();
    if (const std::int64_t value = bench.value(family, metric, instance); value != kMissing) return value;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return kMissing;
}

constexpr char kMounts[] = "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:5 / /tmp rw - tmpfs tmp rw\n";

TEST(FileSystem, SaysHowFullTheOneBelowTmpWasWhenItWasRecorded) {
  TestHost host;
  const std::string mounts = kMounts;
  host.write("/ticks.rec", "reveal recording 1\n+ 0 F/proc/self/mountinfo\n$ 0 " + std::to_string(mounts.size()) +
                               "\n" + mounts + "\n+ 1 @@statvfs/local\n$ 1 26\n/tmp 4096000 3000 2000 5 4\n= 1 1\n");
  ProbeBench bench(host, "file_system");
  EXPECT_EQ(answered(bench, "storage/file_systems", "fs.total", "/tmp"), 4096000);
  EXPECT_EQ(bench.value("storage/file_systems", "fs.free", "/tmp"), 3000);
  EXPECT_EQ(bench.value("storage/file_system_files", "fs.files_free", "/tmp"), 4);
}

TEST(FileSystem, SaysNothingOfACopiedTreeBecauseItsDiskIsOurs) {
  TestHost host;
  host.write("/tmp/a_file", "");
  host.write("/proc/self/mountinfo", kMounts);
  const ProbeBench bench(host, "file_system");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
}

TEST(ProcessNuma, SumsThePagesOfAProcessOnEachNode) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
  host.write("/sys/devices/system/node/node1/numastat", "numa_hit 1\n");
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  host.write("/proc/50/numa_maps",
             "00400000 default file=/usr/bin/solver mapped=30 mapmax=9 N0=20 N1=10 kernelpagesize_kB=4\n"
             "00600000 default file=/usr/bin/solver anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4\n"
             "7f0000000000 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
             "7ffc00000000 default stack anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n");
  ProbeBench bench(host, "process_numa", JobSource{.pid = 50});
  const Coverage coverage = bench.coverage();
  ASSERT_EQ(coverage.state, Coverage::State::ok) << coverage.reason;
  EXPECT_EQ(answered(bench, "process/numa", "process.numa_bytes", "rank0/node0"), 3 * 4096);
  EXPECT_EQ(bench.value("process/numa", "process.numa_bytes", "rank0/node1"), 4096 + 2 * 2'097'152);
}

TEST(ProcessNuma, IsAbsentWhereThereIsNothingToPlace) {
  TestHost host;
  host.write("/sys/devices/system/node/node0/numastat", "numa_hit 1\n");
  host.process(50, 1, "solver", 10, 5);
  host.last_pid(50);
  const ProbeBench bench(host, "process_numa", JobSource{.pid = 50});
  EXPECT_EQ(bench.coverage().reason, "with one NUMA node all memory is on it");
}

}  // namespace
}  // namespace reveal
