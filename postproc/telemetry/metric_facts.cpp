#include "postproc/telemetry/metric_facts.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "postproc/telemetry/derived.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

using enum MetricFact::Of;

// clang-format off: a row per metric
constexpr MetricFact kFacts[] = {
    {.metric = "job.cpu_time", .unit = "cpus", .meter = "job cpu", .meter_unit = "ns/s", .usual_timeline = true},
    {.metric = "job.outsider_cpu",
     .compared = "cpu time of processes outside the job",
     .unit = "cpus",
     .usual_timeline = true},
    {.metric = "job.wait_time",
     .compared = "time the job waited for a cpu",
     .shown = "threads waiting",
     .meter = "job waits for cpu",
     .meter_unit = "ns/s",
     .usual_timeline = true},
    {.metric = "job.own_time", .unit = "cpus", .peers = PeerMeaning::work},
    {.metric = "job.processes", .peers = PeerMeaning::work},
    {.metric = "job.threads", .peers = PeerMeaning::work},
    {.metric = "job.running", .peers = PeerMeaning::work},
    {.metric = "process.cpu_time", .words = "CPU time of the process", .unit = "cpus", .prune_rank = 6},
    {.metric = "outsider.cpu_time", .unit = "cpus"},
    {.metric = "process.run_time", .words = "Exact CPU time of the process", .shown = "cpus"},
    {.metric = "process.wait_time", .words = "Time the process was ready but had no cpu", .shown = "threads waiting"},
    {.metric = "process.migrations", .words = "Migrations of the process between cpus"},
    {.metric = "process.threads", .peers = PeerMeaning::work},
    {.metric = "process.rss_anon", .words = "Memory of the process without files", .peers = PeerMeaning::work},
    {.metric = "process.rss", .meter = "job memory", .meter_unit = "bytes", .peers = PeerMeaning::work},
    // The program decides which rank calls which function, and how often; steps are made together.
    {.metric = "stack.steps", .words = "Backward passes", .peers = PeerMeaning::work},
    {.metric = "stack.step_time", .words = "Duration of the training steps", .peers = PeerMeaning::work},
    {.metric = "stack.communication", .words = "Collectives of gloo under way", .peers = PeerMeaning::work},
    {.metric = "stack.errors", .peers = PeerMeaning::node},
    {.metric = "stack.*", .peers = PeerMeaning::work},
    {.metric = "pressure.cpu_some", .words = "Time in which a task waited for a cpu"},
    {.metric = "pressure.io_some", .words = "Time in which a task waited for io"},
    {.metric = "pressure.memory_some", .words = "Time in which a task waited for memory"},
    {.metric = "pressure.*", .shown = "% of the time", .shown_factor = 100},
    {.metric = "cgroup.io_*", .shown = "% of the time", .shown_factor = 100},
    {.metric = "cgroup.memory_some", .shown = "% of the time", .shown_factor = 100},
    {.metric = "cgroup.memory_full", .shown = "% of the time", .shown_factor = 100},
    {.metric = "disk.io_time", .shown = "% of the time", .shown_factor = 100},
    {.metric = "gpu.power_violation", .shown = "% of the time", .shown_factor = 100},
    {.metric = "gpu.thermal_violation", .shown = "% of the time", .shown_factor = 100},
    {.metric = "throttle.core_time", .shown = "% of the time", .shown_factor = 100},
    {.metric = "throttle.package_time", .shown = "% of the time", .shown_factor = 100},
    {.metric = "process.throttled_time", .words = "CPU time that a quota refused the process", .shown = "cpus"},
    {.metric = "cgroup.cpu_throttled_time", .words = "CPU time that a quota refused the job", .shown = "cpus"},
    {.metric = "vmstat.pgpgin", .shown = "bytes/s", .shown_factor = 1024},
    {.metric = "vmstat.pgpgout", .shown = "bytes/s", .shown_factor = 1024},

    {.metric = "cpu.utilization", .unit = "ratio", .usual_timeline = true},
    {.metric = "cpu.user", .words = "CPU user time"},
    {.metric = "cpu.system", .words = "CPU system time"},
    {.metric = "cpu.idle", .words = "CPU idle time"},
    {.metric = "cpu.iowait", .words = "CPU time waiting for io"},
    {.metric = "cpu.softirq", .words = "CPU time in softirqs"},
    {.metric = "cpu.steal", .words = "CPU time taken by the hypervisor"},
    {.metric = "cpu.frequency", .compared = "cpu clock"},
    {.metric = "cpu.*", .unit = "cpus"},
    {.metric = "cpu.user*", .prune_rank = 2},
    {.metric = "cpu.system*", .prune_rank = 4},
    {.metric = "cpu.idle*", .prune_rank = 5},

    // Behind the metrics that the paper ranks, and before the counters of which they are computed.
    {.metric = "pmu.ipc", .words = "Instructions per cycle", .prune_rank = 25},
    {.metric = "pmu.branch_miss_rate", .words = "Share of branches that were mispredicted", .prune_rank = 34},
    {.metric = "pmu.cache_miss_ratio", .words = "Share of last-level cache accesses that missed", .prune_rank = 33},
    {.metric = "pmu.l3_stall_ratio", .words = "Share of cycles that waited for memory", .prune_rank = 26},
    {.metric = "pmu.stall_ratio", .words = "Share of cycles that waited for memory or units", .prune_rank = 27},
    {.metric = "pmu.frontend_stall_ratio", .words = "Share of cycles that waited for instructions", .prune_rank = 28},
    {.metric = "pmu.remote_share", .words = "Share of memory accesses to another NUMA node", .prune_rank = 29},
    {.metric = "pmu.clock_ratio", .words = "CPU clock against its nominal one", .prune_rank = 35},
    {.metric = "platform.busy", .words = "Share of time in which cpus were not idle", .prune_rank = 31},
    {.metric = "platform.busy_frequency", .words = "Clock of busy cpus", .compared = "cpu clock", .prune_rank = 30},
    {.metric = "platform.memory_bandwidth",
     .words = "Memory bandwidth",
     .unit = "bytes/s",
     .prune_rank = 32,
     .peers = PeerMeaning::work},

    {.metric = "mem.available",
     .words = "Available memory",
     .meter = "memory available",
     .meter_unit = "bytes",
     .prune_rank = 9},
    {.metric = "mem.free", .words = "Free memory", .prune_rank = 11},
    {.metric = "mem.dirty", .words = "Dirty page cache"},
    {.metric = "mem.writeback", .words = "Page cache under writeback"},

    {.metric = "net.rx_bytes",
     .words = "Network receive throughput",
     .meter = "network in",
     .meter_unit = "bytes/s",
     .prune_rank = 14},
    {.metric = "net.tx_bytes",
     .words = "Network transmit throughput",
     .meter = "network out",
     .meter_unit = "bytes/s",
     .prune_rank = 15},
    {.metric = "ib.rcv_bytes", .words = "Receive throughput of the RDMA port"},
    {.metric = "ib.xmit_bytes", .words = "Transmit throughput of the RDMA port"},
    {.metric = "ib.xmit_wait", .words = "Waiting of the RDMA port for credits"},
    {.metric = "rdma.qp.count", .words = "Connected queue pairs of the job", .peers = PeerMeaning::work},
    {.metric = "rdma.cq.count", .words = "Completion queues of the job", .peers = PeerMeaning::work},
    {.metric = "process.rdma_queue_pairs", .words = "Connected queue pairs of the process", .peers = PeerMeaning::work},
    {.metric = "tcp.RetransSegs", .words = "TCP segments sent again", .summed_in_paper = true},
    {.metric = "tcp.retransmitted_share", .words = "Share of TCP segments sent again", .peers = PeerMeaning::node},
    // The number of peers is the job's own shape.
    {.metric = "tcp.peer.retransmits", .words = "TCP segments sent again to the peer"},
    {.metric = "tcp.peer.out_of_order", .words = "TCP segments of the peer out of order"},
    {.metric = "tcp.peer.coverage", .words = "Share of the peer's TCP segments that is counted"},
    {.metric = "tcp.peer.*", .peers = PeerMeaning::work},

    {.metric = "disk.read_bytes", .words = "Disk read volume", .meter = "disk read", .meter_unit = "bytes/s"},
    {.metric = "disk.write_bytes", .words = "Disk write volume", .meter = "disk write", .meter_unit = "bytes/s"},
    {.metric = "disk.reads", .words = "Disk reads"},
    {.metric = "disk.writes", .words = "Disk writes"},
    {.metric = "disk.queue_time", .words = "Waiting time in the disk's queue"},
    {.metric = "disk.read_time", .compared = "time of a disk read"},
    {.metric = "disk.write_time", .compared = "time of a disk write"},
    {.metric = "disk.flushes", .words = "Disk flushes (fsync)"},
    {.metric = "disk.read*", .prune_rank = 19},
    {.metric = "disk.write*", .prune_rank = 21},
    {.metric = "disk.io_time", .prune_rank = 23},

    {.metric = "gpu.utilization",
     .words = "GPU utilization",
     .meter = "gpu busy",
     .meter_unit = "percent",
     .usual_timeline = true},
    {.metric = "gpu.util*", .prune_rank = 1},
    {.metric = "gpu.memory_used", .words = "GPU memory in use", .peers = PeerMeaning::work},
    {.metric = "gpu.memory_free", .words = "Free GPU memory", .peers = PeerMeaning::work},
    {.metric = "gpu.memory_utilization", .words = "Use of the GPU's memory bus"},
    {.metric = "gpu.memory_bandwidth", .words = "Use of the GPU's memory bandwidth"},
    {.metric = "gpu.memory*", .prune_rank = 8},
    {.metric = "gpu.sm_active", .words = "Multiprocessors of the GPU that work"},
    {.metric = "gpu.tensor_active", .words = "Use of the GPU's tensor cores"},
    {.metric = "gpu.power", .words = "Power of the GPU"},
    {.metric = "gpu.energy", .words = "Power of the GPU by its energy"},
    {.metric = "gpu.sm_clock", .words = "Clock of the GPU", .compared = "GPU clock"},
    {.metric = "gpu.temperature", .words = "Temperature of the GPU"},
    {.metric = "gpu.reason_power_cap", .words = "GPU held by its power limit"},
    {.metric = "gpu.reason_sw_thermal", .words = "GPU slowed down by the driver for heat"},
    {.metric = "gpu.reason_hw_thermal", .words = "GPU slowed down by its hardware for heat"},
    {.metric = "gpu.power_violation", .words = "Time the GPU was held by its power limit"},
    {.metric = "gpu.thermal_violation", .words = "Time the GPU was held by its temperature"},
    {.metric = "pcie.rx_bytes", .words = "Traffic to the GPU over PCI Express"},
    {.metric = "pcie.tx_bytes", .words = "Traffic from the GPU over PCI Express"},
    {.metric = "process.gpu_memory", .words = "GPU memory of the process", .peers = PeerMeaning::work},
    {.metric = "process.gpu_utilization", .words = "GPU use of the process", .peers = PeerMeaning::work},

    // Counters that ought to stand still. Retransmissions, lost probes and discarded acknowledgements are daily life
    // between busy ranks: not here.
    {.metric = "edac.uncorrected*", .error_count = 1},
    {.metric = "edac.corrected*", .error_count = 10},
    {.metric = "throttle.core_count*", .error_count = 10},
    {.metric = "throttle.package_count*", .error_count = 10},
    {.metric = "throttle.core_time", .compared = "time slowed down for heat, by core"},
    {.metric = "throttle.package_time", .compared = "time slowed down for heat"},
    {.metric = "cgroup.cpu_throttled_periods", .error_count = 10},
    {.metric = "softnet.dropped", .error_count = 10},
    {.metric = "ib.link_downed", .error_count = 1},
    {.metric = "ib.link_error_recovery", .error_count = 1},
    {.metric = "net.carrier_down", .error_count = 1},

    // Amounts of memory, files and storage are those of the rank's task; faults, stalls and settings are the node's.
    {.metric = "mem.*", .peers = PeerMeaning::work},
    {.metric = "zone.*", .peers = PeerMeaning::work},
    {.metric = "free_blocks.*", .peers = PeerMeaning::work},
    {.metric = "numa_foreign", .peers = PeerMeaning::node},
    {.metric = "numa_*", .peers = PeerMeaning::work},
    {.metric = "memory_numa.*", .peers = PeerMeaning::work},
    {.metric = "memory_stat.*", .peers = PeerMeaning::work},
    {.metric = "cgroup.cpu_throttled_time", .compared = "time throttled by the cpu quota"},
    {.metric = "cgroup.memory_some", .compared = "time the job waited for memory", .peers = PeerMeaning::node},
    {.metric = "cgroup.memory_full", .peers = PeerMeaning::node},
    {.metric = "cgroup.memory_*", .peers = PeerMeaning::work},
    {.metric = "cgroup.page_faults", .peers = PeerMeaning::work},
    {.metric = "cgroup.read*", .peers = PeerMeaning::work},
    {.metric = "cgroup.write*", .peers = PeerMeaning::work},
    {.metric = "process.read*", .peers = PeerMeaning::work},
    {.metric = "process.writ*", .peers = PeerMeaning::work},
    {.metric = "process.minor_faults", .peers = PeerMeaning::work},
    {.metric = "process.numa*", .peers = PeerMeaning::work},
    // Times of one request: the amount of work does not change them unless it is much more.
    {.metric = "disk.time_per_read", .words = "Time of a disk read", .peers = PeerMeaning::node},
    {.metric = "disk.time_per_write", .words = "Time of a disk write", .peers = PeerMeaning::node},
    {.metric = "disk.*", .peers = PeerMeaning::work},
    {.metric = "writeback.*", .peers = PeerMeaning::work},
    {.metric = "fs.not_answering", .peers = PeerMeaning::node},
    {.metric = "fs.*", .peers = PeerMeaning::work},
    {.metric = "kernel.*", .peers = PeerMeaning::work},
    {.metric = "lustre.*", .peers = PeerMeaning::work},
    {.metric = "nfs.round_trip_time", .compared = "time of an NFS request"},
    {.metric = "nfs.retransmissions", .peers = PeerMeaning::node},
    {.metric = "nfs.rpc_retransmissions", .peers = PeerMeaning::node},
    {.metric = "nfs.timeouts", .peers = PeerMeaning::node},
    {.metric = "nfs.time_per_request", .words = "Time of an NFS request", .peers = PeerMeaning::node},
    {.metric = "nfs.*", .peers = PeerMeaning::work},
    {.metric = "vmstat.pgfault", .summed_in_paper = true},
    {.metric = "vmstat.pgmajfault", .summed_in_paper = true},
    {.metric = "process.minor_faults", .summed_in_paper = true},
    {.metric = "process.major_faults", .summed_in_paper = true},
    {.metric = "vmstat.allocstall_normal",
     .compared = "allocations that had to free memory first",
     .peers = PeerMeaning::node},
    {.metric = "vmstat.allocstall_movable",
     .compared = "allocations that had to free memory first",
     .peers = PeerMeaning::node},
    {.metric = "vmstat.compact_stall", .peers = PeerMeaning::node},
    {.metric = "vmstat.compact_fail", .peers = PeerMeaning::node},
    {.metric = "vmstat.oom_kill", .peers = PeerMeaning::node},
    {.metric = "vmstat.pswpin", .compared = "pages read from swap", .peers = PeerMeaning::node},
    {.metric = "vmstat.pswpout", .peers = PeerMeaning::node},
    {.metric = "vmstat.thp_fault_fallback", .peers = PeerMeaning::node},
    {.metric = "vmstat.*", .peers = PeerMeaning::work},

    {.metric = "cpu.busy*", .prune_rank = 3, .of = other_data},
    {.metric = "rank.utime*", .prune_rank = 7, .of = other_data},
    {.metric = "mem.used*", .prune_rank = 10, .of = other_data},
    {.metric = "mem.MemAvailable*", .prune_rank = 12, .of = other_data},
    {.metric = "mem.MemFree*", .prune_rank = 13, .of = other_data},
    {.metric = "net.n.rxb*", .prune_rank = 16, .of = other_data},
    {.metric = "net.n.txb*", .prune_rank = 17, .of = other_data},
    {.metric = "net.host.rxb*", .prune_rank = 18, .of = other_data},
    {.metric = "disk.rsectors*", .words = "Disk read sectors", .prune_rank = 20, .of = other_data},
    {.metric = "disk.wsectors*", .prune_rank = 22, .of = other_data},
    {.metric = "disk.ioms*", .prune_rank = 24, .of = other_data},

    {.metric = "*oom*", .error_count = 1, .of = any_name},
    {.metric = "*uncorrect*", .error_count = 1, .of = any_name},
    {.metric = "*xid*", .error_count = 1, .of = any_name},
    {.metric = "*hung*", .error_count = 1, .of = any_name},
    {.metric = "*error*", .error_count = 10, .of = any_name},
    {.metric = "*errs*", .error_count = 10, .of = any_name},
    {.metric = "*_err*", .error_count = 10, .of = any_name},
    {.metric = "*inerr*", .error_count = 10, .of = any_name},
    {.metric = "*rxerr*", .error_count = 10, .of = any_name},
    {.metric = "*txerr*", .error_count = 10, .of = any_name},
    {.metric = "*drop*", .error_count = 10, .of = any_name},
    {.metric = "*overrun*", .error_count = 10, .of = any_name},
    {.metric = "*fifo*", .error_count = 10, .of = any_name},
    {.metric = "*overflow*", .error_count = 10, .of = any_name},
    {.metric = "*throttl*", .error_count = 10, .of = any_name},
    {.metric = "*corrected*", .error_count = 10, .of = any_name},
    {.metric = "*allocstall*", .error_count = 10, .of = any_name},
};
// clang-format on

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Seconds per second: the cpus that were busy, or just that.
std::string time_rate(std::string_view metric) {
  const std::string_view unit = fact_of(metric, &MetricFact::unit);
  return std::string(unit.empty() ? "s/s" : unit);
}

}  // namespace

std::span<const MetricFact> metric_facts() {
  return kFacts;
}

bool matches(const MetricFact& row, std::string_view metric) {
  std::string_view pattern = row.metric;
  if (pattern.starts_with('*')) {
    pattern = pattern.substr(1, pattern.size() - 2);
    return std::search(metric.begin(), metric.end(), pattern.begin(), pattern.end(), same_letter) != metric.end();
  }
  if (!pattern.ends_with('*')) return metric == pattern;
  return metric.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::string_view words_for(std::string_view metric) {
  const std::string_view words = fact_of(metric, &MetricFact::words);
  return words.empty() ? metric : words;
}

std::string compared_words(std::string_view metric) {
  const std::string_view own = fact_of(metric, &MetricFact::compared);
  if (!own.empty()) return std::string(own);
  std::string words(words_for(metric));
  const bool is_word = words.size() > 1 && words[1] >= 'a' && words[1] <= 'z';  // "CPU" and "TCP" stay
  if (is_word && words[0] >= 'A' && words[0] <= 'Z') words[0] = static_cast<char>(words[0] - 'A' + 'a');
  return words;
}

bool per_second(const Channel& channel) {
  return is_counted(channel.kind);
}

std::string unit_of(const Channel& channel) {
  const std::string_view unit = fact_of(channel.metric, &MetricFact::unit);
  if (per_second(channel)) return std::string(name_of(channel.unit)) + "/s";
  const bool own = !unit.empty() && (channel.unit == Unit::ratio || channel.family == kDerivedFamily);
  return std::string(own ? unit : name_of(channel.unit));
}

std::pair<std::string, double> shown_unit(const Channel& channel, double step_seconds) {
  if (!per_second(channel)) return {unit_of(channel), 1};
  if (channel.unit == Unit::nanoseconds) return {time_rate(channel.metric), 1e-9 / step_seconds};
  if (channel.unit == Unit::microjoules) return {"W", 1e-6 / step_seconds};
  return {unit_of(channel), 1 / step_seconds};
}

Scale shown_as(std::string_view metric, std::string_view unit) {
  const std::string_view shown = fact_of(metric, &MetricFact::shown);
  if (!shown.empty() && (unit == "ns/s" || unit == "s/s" || unit == "count/s")) {
    const double factor = fact_of(metric, &MetricFact::shown_factor);
    return {(unit == "ns/s" ? 1e-9 : 1) * (factor > 0 ? factor : 1), std::string(shown)};
  }
  return unit == "ns/s" ? Scale{1e-9, time_rate(metric)} : Scale{1, std::string(unit)};
}

std::string quantity_of(std::string_view metric, std::optional<double> value, std::string_view unit) {
  const Scale shown = shown_as(metric, unit);
  return quantity(value ? std::optional(*value * shown.factor) : value, shown.unit);
}

std::pair<std::string, std::string> quantities_of(std::string_view metric, double first, double second,
                                                  std::string_view unit) {
  const Scale shown = shown_as(metric, unit);
  const double larger = std::max(std::abs(first), std::abs(second)) * shown.factor;
  const Scale scale = scale_for(larger, shown.unit);
  const auto text = [&](double value) { return scaled(value * shown.factor, scale); };
  return {text(first), text(second)};
}

bool is_carried_over(const Channel& channel) {
  return !per_second(channel) && channel.subsystem == Subsystem::memory &&
         (channel.scope == Scope::node || channel.scope == Scope::numa);
}

}  // namespace reveal
