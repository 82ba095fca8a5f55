// Every probe on small hosts: what it reads, and that it leaves out what it cannot read.
#include <gtest/gtest.h>

#include "test_host.h"

namespace reveal {
namespace {

TEST(Cpu, CountsNanosecondsPerCpuAndLeavesOutTheSum) {
  TestHost host;
  host.write("/proc/stat",
             "cpu  30 0 20 400 0 0 0 0 0 0\ncpu0 10 1 2 3 4 5 6 7 8 9\ncpu1 20 0 0 100 0 0 0 0 0 0\n"
             "intr 12345 0 1 2\nctxt 777\nbtime 1700000000\nprocesses 99\nprocs_running 3\nprocs_blocked 1\n"
             "softirq 555 1 2 3\n");
  ProbeBench bench(host, "cpu");
  bench.sample();
  EXPECT_EQ(bench.family("cpu/times").channels().size(), 20U);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu0"), 100'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.guest_nice", "cpu0"), 90'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.idle", "cpu1"), 1'000'000'000);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.interrupts"), 12345);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.context_switches"), 777);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.forks"), 99);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.softirqs"), 555);
  EXPECT_EQ(bench.value("cpu/run_queue", "cpu.procs_running"), 3);
  EXPECT_EQ(bench.value("cpu/run_queue", "cpu.procs_blocked"), 1);
}

TEST(Cpu, LeavesMissingWhatACutOffTextDoesNotSay) {
  TestHost host;
  host.write("/proc/stat", "cpu0 10 1 2 3 4 5 6 7 8 9\ncpu1 20 0 0 100\n");
  ProbeBench bench(host, "cpu");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.idle", "cpu1"), 1'000'000'000);
  EXPECT_EQ(bench.value("cpu/times", "cpu.iowait", "cpu1"), kMissing);
  EXPECT_EQ(bench.value("cpu/activity", "cpu.forks"), kMissing);
}

TEST(Cpu, GivesALaterCpuAChannelAndAVanishedOneNothing) {
  TestHost host;
  host.write("/proc/stat", "cpu0 1 0 0 0 0 0 0 0 0 0\n");
  ProbeBench bench(host, "cpu");
  host.write("/proc/stat", "cpu0 1 0 0 0 0 0 0 0 0 0\ncpu7 5 0 0 0 0 0 0 0 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu7"), 50'000'000);
  host.write("/proc/stat", "cpu7 6 0 0 0 0 0 0 0 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu0"), kMissing);
  EXPECT_EQ(bench.value("cpu/times", "cpu.user", "cpu7"), 60'000'000);
}

TEST(Cpu, IsAbsentWithAReasonWhereItsTextIsMissing) {
  const TestHost host;
  const ProbeBench bench(host, "cpu");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("/proc/stat: No such file"), std::string::npos) << bench.coverage().reason;
}

TEST(Memory, ConvertsToBytesAndCountsHugePages) {
  TestHost host;
  host.write("/proc/meminfo",
             "MemTotal:       24684084 kB\nMemAvailable:   100 kB\nDirty:          7 kB\nActive(anon):   5 kB\n"
             "AnonHugePages:  2048 kB\nHugePages_Free:    3\nBrandNewThing:  9 kB\n");
  ProbeBench bench(host, "memory");
  bench.sample();
  EXPECT_EQ(bench.value("memory/meminfo", "mem.total"), 24684084LL * 1024);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.available"), 102400);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.dirty"), 7168);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.active_anon"), 5120);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.anon_huge_pages"), 2097152);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.brand_new_thing"), 9216);
  EXPECT_EQ(bench.value("memory/hugepages", "mem.hugepages_free"), 3);
}

TEST(Memory, LeavesMissingWhatIsGoneAndWhatIsNoNumber) {
  TestHost host;
  host.write("/proc/meminfo", "MemFree: 1 kB\nCached: 2 kB\nDirty: 3 kB\n");
  ProbeBench bench(host, "memory");
  host.write("/proc/meminfo", "Cached: 2x kB\nDirtyMore: 8 kB\nDirty: 4 kB\nMemFre");
  bench.sample();
  EXPECT_EQ(bench.value("memory/meminfo", "mem.free"), kMissing);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.cached"), kMissing);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.dirty"), 4096);
  EXPECT_EQ(bench.value("memory/meminfo", "mem.dirty_more"), 8192);
}

TEST(Vmstat, SeparatesEventsFromLevels) {
  TestHost host;
  host.write("/proc/vmstat",
             "nr_dirty 4\nnr_dirtied 100\nnr_dirty_threshold 50\npgfault 7\nworkingset_nodes 9\nnew_key 1\n");
  ProbeBench bench(host, "vmstat");
  bench.sample();
  EXPECT_EQ(bench.value("memory/vmstat_levels", "vmstat.nr_dirty"), 4);
  EXPECT_EQ(bench.value("memory/vmstat_levels", "vmstat.nr_dirty_threshold"), 50);
  EXPECT_EQ(bench.value("memory/vmstat_levels", "vmstat.workingset_nodes"), 9);
  EXPECT_EQ(bench.value("memory/vmstat", "vmstat.nr_dirtied"), 100);
  EXPECT_EQ(bench.value("memory/vmstat", "vmstat.pgfault"), 7);
  EXPECT_EQ(bench.value("memory/vmstat", "vmstat.new_key"), 1);
}

TEST(Numa, ReadsBothFilesOfEachNode) {
  TestHost host;
  for (const std::string node : {"node0", "node1"}) {
    host.write("/sys/devices/system/node/" + node + "/numastat", "numa_hit 5\nnuma_miss 2\nlocal_node 4\n");
    host.write("/sys/devices/system/node/" + node + "/meminfo",
               "Node 0 MemFree:        10 kB\nNode 0 Active(file):   3 kB\nNode 0 HugePages_Total:     4\n");
  }
  host.write("/sys/devices/system/node/node1/numastat", "numa_hit 50\n");
  ProbeBench pages(host, "numa");
  pages.sample();
  EXPECT_EQ(pages.value("memory/numa_pages", "numa_hit", "node0"), 5);
  EXPECT_EQ(pages.value("memory/numa_pages", "numa_hit", "node1"), 50);
  EXPECT_EQ(pages.value("memory/numa_pages", "numa_local_node", "node0"), 4);
  ProbeBench memory(host, "numa_memory");
  memory.sample();
  EXPECT_EQ(memory.value("memory/numa_meminfo", "numa_mem.free", "node1"), 10240);
  EXPECT_EQ(memory.value("memory/numa_meminfo", "numa_mem.active_file", "node0"), 3072);
}

TEST(Interrupts, MakesOneChannelPerSourceAndCpu) {
  TestHost host;
  host.write("/proc/interrupts",
             "           CPU0       CPU1       \n  24:          1          2  IO-APIC   5-edge      eth0 0\n"
             " LOC:      21845      17578   Local timer interrupts\n ERR:          3\n");
  ProbeBench bench(host, "interrupts");
  bench.sample();
  EXPECT_EQ(bench.family("interrupts/per_cpu").channels().size(), 5U);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.24", "cpu1"), 2);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.LOC", "cpu0"), 21845);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.ERR"), 3);  // of all cpus
}

TEST(Interrupts, MakeNoChannelBeforeTheyHappen) {
  TestHost host;
  host.write("/proc/interrupts",
             "           CPU0       CPU1       \n  24:          0          2  eth0\n MIS:          0\n");
  ProbeBench bench(host, "interrupts");
  EXPECT_EQ(bench.family("interrupts/per_cpu").channels().size(), 1U);
  host.write("/proc/interrupts",
             "           CPU0       CPU1       \n  24:          5          2  eth0\n MIS:          1\n");
  bench.sample();
  EXPECT_EQ(bench.family("interrupts/per_cpu").channels().size(), 3U);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.24", "cpu0"), 5);
  EXPECT_EQ(bench.value("interrupts/per_cpu", "irq.MIS"), 1);
}

TEST(Interrupts, FollowsACpuThatGoesOffLine) {
  TestHost host;
  host.write("/proc/softirqs", "                    CPU0       CPU1\n      NET_RX:       10         20\n");
  ProbeBench bench(host, "softirqs");
  host.write("/proc/softirqs", "                    CPU1\n      NET_RX:       25\n");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softirqs", "softirq.NET_RX", "cpu0"), kMissing);
  EXPECT_EQ(bench.value("interrupts/softirqs", "softirq.NET_RX", "cpu1"), 25);
  EXPECT_EQ(bench.family("interrupts/softirqs").channels().size(), 2U);
}

TEST(Softnet, ReadsHexadecimalColumnsWithAndWithoutTheCpuNumber) {
  TestHost host;
  host.write("/proc/net/softnet_stat",
             "000000ff 00000001 00000002 0 0 0 0 0 0 0 0 0 00000000\n"
             "00000010 00000000 00000000 0 0 0 0 0 0 0 0 0 00000005\n");
  ProbeBench bench(host, "softnet");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu0"), 255);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.time_squeeze", "cpu0"), 2);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu5"), 16);
  host.write("/proc/net/softnet_stat", "00000100 0 0\n00000011 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu0"), 256);
  EXPECT_EQ(bench.value("interrupts/softnet", "softnet.processed", "cpu1"), 17);
}

TEST(Disk, SkipsMemoryDisksPartitionsAndIdleOnes) {
  TestHost host;
  host.write("/sys/class/block/vda1/partition", "1\n");
  host.write("/proc/diskstats",
             "   7 0 loop0 9 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 10 2 16 30 5 1 8 7 3 40 50 0 0 0 0 6 9\n"
             " 254 1 vda1 10 2 16 30 5 1 8 7 3 40 50\n 253 0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
  ProbeBench bench(host, "disk");
  bench.sample();
  EXPECT_EQ(bench.family("storage/disk_queue").channels().size(), 1U);
  EXPECT_EQ(bench.value("storage/disk", "disk.reads", "vda"), 10);
  EXPECT_EQ(bench.value("storage/disk_bytes", "disk.read_bytes", "vda"), 16 * 512);
  EXPECT_EQ(bench.value("storage/disk_time", "disk.read_time", "vda"), 30'000'000);
  EXPECT_EQ(bench.value("storage/disk_queue", "disk.inflight", "vda"), 3);
  EXPECT_EQ(bench.value("storage/disk", "disk.flushes", "vda"), 6);
  EXPECT_EQ(bench.value("storage/disk_time", "disk.flush_time", "vda"), 9'000'000);
  host.write("/proc/diskstats", " 253 0 zram0 1 0 8 0 0 0 0 0 0 0 0\n");
  bench.sample();
  EXPECT_EQ(bench.value("storage/disk", "disk.reads", "zram0"), 1);
  EXPECT_EQ(bench.value("storage/disk", "disk.flushes", "zram0"), kMissing);  // an old kernel's short line
  EXPECT_EQ(bench.value("storage/disk", "disk.reads", "vda"), kMissing);
}

TEST(Network, ReadsInterfacesThatEverMovedAByte) {
  TestHost host;
  host.write(
      "/proc/net/dev",
      "Inter-|   Receive                |  Transmit\n face |bytes    packets errs drop fifo frame compressed "
      "multicast|bytes    packets errs drop fifo colls carrier compressed\n"
      "  eth0:183676327    3544    1    2    3     4          5         6   136657    1897    7    8    9     10 "
      "      11          12\n  ifb0:       0       0    0    0    0     0          0         0        0       0    0 "
      "   0    0     0       0          0\n");
  ProbeBench bench(host, "network");
  bench.sample();
  EXPECT_EQ(bench.family("network/bytes").channels().size(), 2U);
  EXPECT_EQ(bench.value("network/bytes", "net.rx_bytes", "eth0"), 183676327);
  EXPECT_EQ(bench.value("network/bytes", "net.tx_bytes", "eth0"), 136657);
  EXPECT_EQ(bench.value("network/packets", "net.rx_multicast", "eth0"), 6);
  EXPECT_EQ(bench.value("network/packets", "net.rx_compressed", "eth0"), 5);
  EXPECT_EQ(bench.value("network/packets", "net.tx_compressed", "eth0"), 12);
  EXPECT_EQ(bench.value("network/errors", "net.rx_dropped", "eth0"), 2);
  EXPECT_EQ(bench.value("network/errors", "net.tx_carrier", "eth0"), 11);
}

TEST(Snmp, PairsNamesWithValuesAndKeepsSettingsOut) {
  TestHost host;
  host.write("/proc/net/snmp",
             "Ip: Forwarding DefaultTTL InReceives\nIp: 2 64 3567\nTcp: MaxConn CurrEstab RetransSegs\nTcp: -1 4 17\n");
  ProbeBench bench(host, "snmp");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp", "ip.InReceives"), 3567);
  EXPECT_EQ(bench.value("network/snmp", "tcp.RetransSegs"), 17);
  EXPECT_EQ(bench.value("network/snmp_levels", "tcp.CurrEstab"), 4);
  EXPECT_EQ(bench.family("network/snmp").channels().size(), 2U);
  // A protocol that appears, values cut off, and a value line of another protocol.
  host.write("/proc/net/snmp",
             "Udp: InDatagrams RcvbufErrors\nUdp: 3\nTcp: MaxConn CurrEstab RetransSegs\nIp: 9 9 9\n");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp", "udp.InDatagrams"), 3);
  EXPECT_EQ(bench.value("network/snmp", "udp.RcvbufErrors"), kMissing);
  EXPECT_EQ(bench.value("network/snmp", "tcp.RetransSegs"), kMissing);
}

TEST(Snmp6, NamesFieldsAsTheKernelDoes) {
  TestHost host;
  host.write("/proc/net/snmp6",
             "Ip6InReceives                   \t120\nIcmp6OutType133                 \t1\n"
             "UdpLite6InDatagrams             \t0\nUdp6RcvbufErrors                \t4\nodd 9\n");
  ProbeBench bench(host, "snmp6");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp6", "ip6.InReceives"), 120);
  EXPECT_EQ(bench.value("network/snmp6", "icmp6.OutType133"), 1);
  EXPECT_EQ(bench.value("network/snmp6", "udplite6.InDatagrams"), 0);
  EXPECT_EQ(bench.value("network/snmp6", "udp6.RcvbufErrors"), 4);
  EXPECT_EQ(bench.family("network/snmp6").channels().size(), 4U);
  host.write("/proc/net/snmp6", "Ip6InReceives                   \t1200\nUdp6InErrors                    \t7\n");
  bench.sample();
  EXPECT_EQ(bench.value("network/snmp6", "ip6.InReceives"), 1200);
  EXPECT_EQ(bench.value("network/snmp6", "udp6.InErrors"), 7);
  EXPECT_EQ(bench.value("network/snmp6", "udp6.RcvbufErrors"), kMissing);
}

TEST(Sockets, CountsThemAndTheirMemoryInBytes) {
  TestHost host;
  host.write("/proc/net/sockstat",
             "sockets: used 11\nTCP: inuse 4 orphan 1 tw 2 alloc 6 mem 277\nUDP: inuse 3 mem 2\nUDPLITE: inuse 0\n"
             "FRAG: inuse 1 memory 640\n");
  ProbeBench bench(host, "sockets");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.used"), 11);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_orphan"), 1);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_tw"), 2);
  EXPECT_EQ(bench.value("network/socket_memory", "sockets.tcp_mem"), 277 * bench.sampler().host().page_bytes);
  EXPECT_EQ(bench.value("network/socket_memory", "sockets.frag_memory"), 640);
  EXPECT_EQ(bench.family("network/sockets").channels().size(), 8U);
  // IPv6 comes later, TCP's line is cut off, and a text that repeats is not parsed.
  host.write("/proc/net/sockstat6", "TCP6: inuse 5\nFRAG6: inuse 0 memory 0\n");
  host.write("/proc/net/sockstat", "sockets: used 12\nTCP: inuse 4 orphan");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.used"), 12);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_inuse"), 4);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp_orphan"), kMissing);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp6_inuse"), 5);
  host.write("/proc/net/sockstat", "sockets: used 13\nTCP: inuse 5 orphan");
  bench.sample();
  EXPECT_EQ(bench.value("network/sockets", "sockets.used"), 13);
  EXPECT_EQ(bench.value("network/sockets", "sockets.tcp6_inuse"), 5);
}

TEST(NetworkTables, AddUpTheCpusAndReadHexadecimal) {
  TestHost host;
  const std::string arp = "/proc/net/stat/arp_cache";
  host.write(arp, "entries  allocs   table_fulls\n0000000a 0000025f 00000000\n0000000a 00000001 00000002\n");
  host.write("/proc/net/stat/nf_conntrack", "entries  clashres found drop\n00000002 00000000 00000000 ffffffff\n");
  ProbeBench bench(host, "network_tables");
  bench.sample();
  EXPECT_EQ(bench.value("network/table_entries", "arp_cache.entries"), 10) << "the same in each line";
  EXPECT_EQ(bench.value("network/tables", "arp_cache.allocs"), 0x25f + 1);
  EXPECT_EQ(bench.value("network/tables", "arp_cache.table_fulls"), 2);
  EXPECT_EQ(bench.value("network/tables", "nf_conntrack.drop"), 0xffffffff);
  // A column that is new, one that is gone, and a line that is cut off.
  host.write(arp, "entries  allocs   news\n0000000b 00000260 00000007\n0000000b 0000");
  bench.sample();
  EXPECT_EQ(bench.value("network/table_entries", "arp_cache.entries"), 11);
  EXPECT_EQ(bench.value("network/tables", "arp_cache.allocs"), 0x260);
  EXPECT_EQ(bench.value("network/tables", "arp_cache.news"), kMissing) << "of one cpu of two";
  EXPECT_EQ(bench.value("network/tables", "arp_cache.table_fulls"), kMissing);
  EXPECT_EQ(bench.value("network/tables", "nf_conntrack.drop"), 0xffffffff);
}

TEST(KernelObjects, AreFilesNamesAndTasks) {
  TestHost host;
  host.write("/proc/sys/fs/file-nr", "435\t0\t2464775\n");
  host.write("/proc/sys/fs/inode-nr", "272067\t440\n");
  host.write("/proc/sys/fs/dentry-state", "548026\t542405\t45\t0\t261856\t0\n");
  for (const int tasks : {102, 103, 1040}) {
    host.write("/proc/loadavg",
               "0.83 1.38 1.33 " + std::to_string(tasks % 7) + "/" + std::to_string(tasks) + " 23929\n");
    ProbeBench bench(host, "kernel_objects");
    bench.sample();
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.tasks"), tasks);
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.files"), 435);
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.inodes_free"), 440);
    EXPECT_EQ(bench.value("storage/kernel_objects", "kernel.dentries_unused"), 542405);
  }
}

TEST(Pressure, TakesTheTotalsInNanoseconds) {
  TestHost host;
  host.write("/proc/pressure/io", "some avg10=2.18 avg60=0.75 avg300=0.27 total=6262143\nfull avg10=0.00 total=8\n");
  ProbeBench bench(host, "pressure");
  bench.sample();
  EXPECT_EQ(bench.value("pressure/node", "pressure.io_some"), 6'262'143'000);
  EXPECT_EQ(bench.value("pressure/node", "pressure.io_full"), 8'000);
  EXPECT_EQ(bench.value("pressure/node", "pressure.cpu_some"), kMissing);
}

TEST(Frequency, IsInHertz) {
  TestHost host;
  host.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2600000\n");
  ProbeBench bench(host, "cpu_frequency");
  bench.sample();
  EXPECT_EQ(bench.value("cpu/frequency", "cpu.frequency", "cpu1"), 2'600'000'000);
}

TEST(SiteMetrics, ReadNumbersFromFilesTheSiteNames) {
  TestHost host;
  host.write("/stats", "snapshot 1.5\nread_bytes 12 samples [bytes]\nopen: 7\n");
  host.write("/level", "42 degrees\n");
  host.write("/metrics.conf",
             "# a comment\n\nlustre.read counter bytes /stats read_bytes\nlustre.open counter bytes /stats open\n"
             "room.level gauge count /level # trailing\nroom.absent gauge count /nowhere\n");
  ProbeBench bench(host, "site", std::nullopt, host.root().string() + "/metrics.conf");
  bench.sample();
  EXPECT_EQ(bench.value("site/counter_bytes", "lustre.read"), 12);
  EXPECT_EQ(bench.value("site/counter_bytes", "lustre.open"), 7);
  EXPECT_EQ(bench.value("site/gauges", "room.level"), 42);
  EXPECT_EQ(bench.value("site/gauges", "room.absent"), kMissing);
}

TEST(SiteMetrics, ReadTheNumberThatIsCountedBehindAWord) {
  TestHost host;
  host.write("/stats",
             "write_bytes 3 samples [bytes] 1 2 30\nread_bytes 12 samples [bytes] 4096 8192 1048576\nMem: 5\n");
  host.write("/metrics.conf",
             "read.times counter count /stats read_bytes:1\nread.bytes counter bytes /stats read_bytes:4\n"
             "read.fifth counter bytes /stats read_bytes:5\nmem gauge bytes /stats Mem:\nmem.first gauge bytes /stats "
             "Mem:1\n");
  ProbeBench bench(host, "site", std::nullopt, host.root().string() + "/metrics.conf");
  bench.sample();
  EXPECT_EQ(bench.value("site/counters", "read.times"), 12);
  EXPECT_EQ(bench.value("site/counter_bytes", "read.bytes"), 1'048'576);
  EXPECT_EQ(bench.value("site/counter_bytes", "read.fifth"), kMissing);
  EXPECT_EQ(bench.value("site/gauge_bytes", "mem"), 5);
  EXPECT_EQ(bench.value("site/gauge_bytes", "mem.first"), 5);
}

TEST(SiteMetrics, NameTheLineThatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"b gauge parsec /level", "\"gauge parsec\""},
      {"b gauge count", "expected NAME KIND UNIT FILE"},
      {"b gauge count level", "\"level\" is no absolute path"},
      {"b gauge count /level word more", "expected NAME KIND UNIT FILE"},
      {"a gauge count /other", "there is a metric \"a\" already"},
      {"cpu.user gauge count /level", "there is a metric \"cpu.user\" already"},
  };
  for (const auto& [line, reason] : wrong) {
    TestHost host;
    host.write("/metrics.conf", std::string("a gauge count /level\n") + line + "\n");
    try {
      const ProbeBench bench(host, "site", std::nullopt, host.root().string() + "/metrics.conf");
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("metrics.conf:2: ") + reason), std::string::npos)
          << error.what();
    }
  }
}

TEST(AllProbes, SurviveTextsThatAreCutOffAnywhere) {
  const TestHost whole;
  const std::vector<std::pair<std::string, std::string>> texts = {
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
      {"/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"},
      {"/sys/class/hwmon/hwmon0/name", "k10temp\n"},
      {"/sys/class/hwmon/hwmon0/temp1_input", "61125\n"},
      {"/sys/class/powercap/intel-rapl:0/energy_uj", "262143328000\n"},
      {"/sys/devices/system/edac/mc/mc0/ce_count", "12\n"},
      {"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n"},
      {"/sys/kernel/debug/bdi/254:0/stats", "BdiWriteback: 12 kB\nBdiDirtied: 9 kB\n"},
      {"/proc/fs/lustre/llite/scratch-ffff/stats",
       "open 5 samples [usecs] 3 90 210\nread_bytes 1 samples [bytes] 1 1 1\n"},
      {"/proc/net/rpc/nfs", "net 0 0\nrpc 9 1 9\n"},
      {"/proc/self/mountstats",
       "device a:/b mounted on /c with fstype nfs4\n bytes: 1 2 3 4 5 6 7 8\n READ: 1 1 0 4 4 1 2 3 0\n"}};
  for (const auto& [path, text] : texts) whole.write(path, text);
  KernelTree fs(whole.root());
  Sink sink;
  Sampler sampler(fs, sink, {}, {1, 1});
  sampler.look_first();
  for (const auto& [path, text] : texts) {
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
}  // namespace reveal
