// What can be measured is said by the tables, and the tables hold what the paper names.
#include "core/listing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/sampler/metric_selection.h"
#include "core/sampler/probe.h"

namespace reveal {
namespace {

/// A metric that arXiv 2510.26008 names, and ours for it, or why there is none.
struct PaperMetric {
  std::string_view name;
  std::string_view where;
  std::string_view ours;     // a metric of a probe's table, or a pattern that meets one
  std::string_view why_not;  // or the sentence
};

constexpr std::string_view kPmu =
    "no kernel text: events of the processor are a table of their own, by microarchitecture";
constexpr std::string_view kGpu = "no kernel text: needs the vendor's library";
constexpr std::string_view kSockets = "not measured: needs a look at every connection, over sock_diag";
constexpr std::string_view kFabric = "not measured: InfiniBand ports count by themselves";
constexpr std::string_view kDerived = "computed after the run from counters that are recorded";

constexpr PaperMetric kPaper[] = {
    {"user, system, idle of each cpu", "A", "cpu.user", ""},
    {"CPU utilization", "4.1, B", "", kDerived},
    {"Busy%", "4.1, 5.6, table 4", "", kPmu},
    {"Bzy_MHz", "5.6, table 8", "cpu.frequency", ""},
    {"C6 residency", "4.1", "", kPmu},
    {"Pkg%pc6", "table 8", "", kPmu},
    {"core and package frequency", "4.1", "cpu.frequency", ""},
    {"IRQ", "4.1, 5.6", "irq.<name>", ""},
    {"SMI", "4.1", "", kPmu},
    {"PkgWatt", "4.1, table 8", "energy.<zone>", ""},
    {"CoreTmp", "table 8", "temperature.core", ""},
    {"thermal throttling", "4.1", "throttle.core_count", ""},
    {"IPC", "4.1, B", "", kDerived},
    {"StallRatio, OccupancyRatio", "4.1, B", "", kDerived},
    {"cycle_activity.stalls_l3_miss", "A, table 8", "", kPmu},
    {"cache misses", "4.1, B", "", kPmu},
    {"branch mispredictions", "4.1, B", "", kPmu},
    {"mem-loads, mem-stores", "A, table 8", "", kPmu},
    {"latency_gt_256", "table 8", "",
     "a sampling event (PEBS): it counts nothing, and sampling is the user's profiler's"},
    {"hardware lock elision", "4.1", "", "gone from all processors since 2021 (disabled by microcode)"},
    {"ls_dc_accesses, ls_dispatch", "A, 5.6", "", kPmu},
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
    {"Rx and Tx throughput", "4.1, B", "net.rx_bytes", ""},
    {"network errors and drops", "4.1, 5.6", "net.rx_dropped", ""},
    {"TcpRetransSegs", "5.6, A, table 8", "tcp.RetransSegs", ""},
    {"protocol statistics", "4.1, A", "tcp.CurrEstab", ""},
    {"connections of ss", "4.1, A", "", kSockets},
    {"ib0 throughput", "6, A", "", kFabric},
    {"NetworkUtilization", "table 4, B", "", kDerived},
    {"sectors_read", "4.1, 5.6, table 8", "disk.read_bytes", ""},
    {"reads_completed_successfully", "4.1", "disk.reads", ""},
    {"reads_merged", "4.1", "disk.reads_merged", ""},
    {"writes_merged", "5.6", "disk.writes_merged", ""},
    {"sectors written", "A", "disk.write_bytes", ""},
    {"time_spent_reading", "table 8", "disk.read_time", ""},
    {"I/O queue depth", "4.1", "disk.inflight", ""},
    {"cumulative I/O wait", "A", "disk.queue_time", ""},
    {"service times", "4.1", "", kDerived},
    {"NUMA residency", "5.6, 6", "process.numa_bytes", ""},
    {"softirq backlog", "6", "softnet.backlog", ""},
    {"softirq time", "6", "cpu.softirq", ""},
    {"container statistics", "3", "group.memory", ""},
};

std::string pattern_of(std::string_view table_name) {
  std::string pattern(table_name.substr(0, table_name.find('<')));
  if (table_name.find('<') != std::string_view::npos) {
    pattern += '*' + std::string(table_name.substr(table_name.find('>') + 1));
  }
  return pattern;
}

bool is_measured(std::string_view metric) {
  for (const ProbeSpec& spec : probes()) {
    for (const FamilyTable& table : spec.families) {
      for (const MetricHelp& help : table.metrics) {
        // A name in the table, or one of those it stands for ("mem.<key>"); "<name>" of the site's own meets all.
        if (help.name == metric) return true;
        const std::string pattern = pattern_of(help.name);
        if (pattern != "*" && patterns_meet(pattern, metric)) return true;
      }
    }
  }
  return false;
}

TEST(Paper, EveryMetricItNamesIsMeasuredOrSaidWhyNot) {
  for (const PaperMetric& metric : kPaper) {
    EXPECT_NE(metric.ours.empty(), metric.why_not.empty()) << metric.name << ": either ours or why not";
    if (metric.ours.empty()) continue;
    EXPECT_TRUE(is_measured(metric.ours)) << metric.name << ": no table has " << metric.ours;
  }
  EXPECT_FALSE(is_measured("cpu.nothing_of_the_kind"));
  EXPECT_FALSE(is_measured("no_such.metric"));
}

TEST(Listing, SaysUnitKindScopeSourceAndPrivilegeOfEveryMetric) {
  const auto list = nlohmann::json::parse(list_probes(Form::json));
  ASSERT_EQ(list.size(), probes().size());
  std::size_t metrics = 0;
  for (const auto& probe : list) {
    EXPECT_TRUE(probe.contains("privilege") && probe.contains("period_seconds")) << probe;
    for (const auto& metric : probe.at("metrics")) {
      ++metrics;
      for (const char* key : {"name", "unit", "kind", "scope", "source", "help"}) {
        EXPECT_FALSE(metric.at(key).get<std::string>().empty()) << metric;
      }
    }
  }
  std::size_t rows = 0;
  for (const ProbeSpec& spec : probes()) {
    for (const FamilyTable& table : spec.families) rows += table.metrics.size();
  }
  EXPECT_EQ(metrics, rows);
}

TEST(Listing, AsMarkdownHasOneRowForEveryMetric) {
  const std::string text = list_probes(Form::markdown);
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = text.find("\n| ", at)) != std::string::npos; ++at) ++rows;
  std::size_t expected = 0;
  for (const ProbeSpec& spec : probes()) {
    ++expected;  // the head of its table
    for (const FamilyTable& table : spec.families) expected += table.metrics.size();
  }
  EXPECT_EQ(rows, expected);
  EXPECT_NE(text.find("| cpu.user | ns | counter | cpu | /proc/stat | "), std::string::npos);
  EXPECT_NE(text.find("mem.\\<key>"), std::string::npos) << "a reader would take <key> for a tag";
}

TEST(Listing, ThatSomethingCostsMoreOnLargeHostsIsSaid) {
  const auto list = nlohmann::json::parse(list_probes(Form::json));
  for (const auto& probe : list) {
    if (probe.at("name") != "interrupts") continue;
    EXPECT_EQ(probe.at("period_seconds"), 0.1);
    EXPECT_GT(probe.at("period_seconds_on_1152_cpus"), 1.0);
    return;
  }
  FAIL() << "no probe is named interrupts";
}

}  // namespace
}  // namespace reveal
