// Every metric of the paper is measured, or has a reason why not.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "listed_metrics.h"

namespace reveal::tests::paper_metrics_test {
namespace {

/// A metric that arXiv 2510.26008 names, and ours for it, or why there is none.
struct PaperMetric {
  std::string_view name;
  std::string_view where;
  std::string_view ours;     // a name of the listing, or one that a row stands for: "mem.dirty" of "mem.<key>"
  std::string_view why_not;  // or the sentence
};

constexpr std::string_view kAccesses = "on Zen, ls_dispatch counts the same loads and stores where they begin";
constexpr std::string_view kGpu = "no kernel text: needs the vendor's library";
constexpr std::string_view kSockets = "not measured: needs a look at every connection, over sock_diag";
constexpr std::string_view kFabric = "not measured: InfiniBand ports count by themselves";

constexpr PaperMetric kPaper[] = {
    {"user, system, idle of each cpu", "A", "cpu.user", ""},
    {"CPU utilization", "4.1, B", "cpu.utilization", ""},
    {"Busy%", "4.1, 5.6, table 4", "platform.busy", ""},
    {"Bzy_MHz", "5.6, table 8", "platform.busy_frequency", ""},
    {"C6 residency", "4.1", "platform.core_c6", ""},
    {"Pkg%pc6", "table 8", "platform.package_c6", ""},
    {"core and package frequency", "4.1", "cpu.frequency", ""},
    {"IRQ", "4.1, 5.6", "irq.<name>", ""},
    {"SMI", "4.1", "platform.smi", ""},
    {"PkgWatt", "4.1, table 8", "platform.package_power", ""},
    {"CoreTmp", "table 8", "temperature.core", ""},
    {"thermal throttling", "4.1", "throttle.core_count", ""},
    {"IPC", "4.1, B", "pmu.ipc", ""},
    {"StallRatio", "4.1, B", "pmu.stall_ratio", ""},
    {"OccupancyRatio", "4.1, B", "pmu.occupancy_ratio", ""},
    {"cycle_activity.stalls_l3_miss", "A, table 8", "pmu.l3_stalls", ""},
    {"cache misses", "4.1, B", "pmu.cache_miss_ratio", ""},
    {"branch mispredictions", "4.1, B", "pmu.branch_miss_rate", ""},
    {"mem-loads", "A, table 8", "pmu.loads", ""},
    {"mem-stores", "A, table 8", "pmu.stores", ""},
    {"latency_gt_256", "table 8", "",
     "a sampling event (PEBS): it counts nothing, and sampling is the user's profiler's"},
    {"hardware lock elision", "4.1", "", "gone from all processors since 2021 (disabled by microcode)"},
    {"ls_dispatch", "A, 5.6", "pmu.loads", ""},
    {"ls_dc_accesses", "A, 5.6", "", kAccesses},
    {"GPU utilization, memory, power, temperature, clocks", "4.1, A, table 8", "", kGpu},
    {"GPU encoder activity", "A", "", kGpu},
    {"GPU ECC errors, retired pages", "4.1, A, table 8", "", kGpu},
    {"PCIe link width", "4.1", "", kGpu},
    {"MemTotal", "A", "mem.<key>", ""},
    {"MemAvailable", "A", "mem.available", ""},
    {"Dirty", "4.1", "mem.dirty", ""},
    {"Writeback", "4.1, 5.6", "mem.writeback", ""},
    {"Unevictable", "5.6", "mem.unevictable", ""},
    {"swap usage", "4.1", "mem.swap_free", ""},
    {"HugePages", "4.1", "hugepages.total", ""},
    {"memory error counters", "4.1", "edac.corrected", ""},
    {"page faults", "4.2", "vmstat.pgfault", ""},
    {"Rx and Tx throughput", "4.1, B", "net.rx_throughput", ""},
    {"network errors and drops", "4.1, 5.6", "net.rx_dropped", ""},
    {"TcpRetransSegs", "5.6, A, table 8", "tcp.RetransSegs", ""},
    {"protocol statistics", "4.1, A", "tcp.CurrEstab", ""},
    {"connections of ss", "4.1, A", "", kSockets},
    {"ib0 throughput", "6, A", "", kFabric},
    {"NetworkUtilization", "table 4, B", "net.utilization", ""},
    {"sectors_read", "4.1, 5.6, table 8", "disk.read_bytes", ""},
    {"reads_completed_successfully", "4.1", "disk.reads", ""},
    {"reads_merged", "4.1", "disk.reads_merged", ""},
    {"writes_merged", "5.6", "disk.writes_merged", ""},
    {"sectors written", "A", "disk.write_bytes", ""},
    {"time_spent_reading", "table 8", "disk.read_time", ""},
    {"I/O queue depth", "4.1", "disk.inflight", ""},
    {"cumulative I/O wait", "A", "disk.queue_time", ""},
    {"service times", "4.1", "disk.io_time", ""},
    {"NUMA residency", "5.6, 6", "process.numa_bytes", ""},
    {"softirq backlog", "6", "softnet.backlog", ""},
    {"softirq time", "6", "cpu.softirq", ""},
    {"container statistics", "3", "group.memory", ""},
};

TEST(Paper, EveryMetricItNamesIsMeasuredOrSaidWhyNot) {
  const ListedMetrics listed;
  const auto is_listed = [&listed](std::string_view metric) { return listed.has(std::string(metric)); };
  for (const PaperMetric& metric : kPaper) {
    EXPECT_NE(metric.ours.empty(), metric.why_not.empty()) << metric.name << ": either ours or why not";
    EXPECT_TRUE(metric.ours.empty() || is_listed(metric.ours)) << metric.name << ": nothing lists " << metric.ours;
  }
  EXPECT_FALSE(is_listed("cpu.nothing_of_the_kind"));
  EXPECT_FALSE(is_listed("no_such.metric"));
}

}  // namespace
}  // namespace reveal::tests::paper_metrics_test
