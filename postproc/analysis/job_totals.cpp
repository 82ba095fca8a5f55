#include "postproc/analysis/job_totals.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/network_interface.h"
#include "postproc/diagnose/signals.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

/// Null: not measured.
struct GpuTotals {
  const ChannelTotals* use = nullptr;
  const ChannelTotals* memory_used = nullptr;
  const ChannelTotals* memory_free = nullptr;
  const ChannelTotals* energy = nullptr;
};
constexpr std::pair<std::string_view, const ChannelTotals * GpuTotals::*> kGpuMetrics[] = {
    {"gpu.utilization", &GpuTotals::use},
    {"gpu.memory_used", &GpuTotals::memory_used},
    {"gpu.memory_free", &GpuTotals::memory_free},
    {"gpu.energy", &GpuTotals::energy}};
constexpr std::string_view kGpuProbes[] = {"gpu", "amd_gpu", "intel_gpu"};

/// One node's trace, with sums and levels by metric.
class Node {
 public:
  Node(const NodeTrace& trace, std::span<const Channel> channels, const TraceTotals& totals)
      : trace_(trace), channels_(channels), totals_(totals) {}

  /// Growth of a counter over the job, all its channels together.
  [[nodiscard]] std::optional<double> sum(std::string_view metric) const {
    return over(
        metric, [](double all, const ChannelTotals& one) { return all + one.sum; }, 0);
  }
  [[nodiscard]] std::optional<double> highest(std::string_view metric, std::string_view instance = {}) const {
    return over(
        metric, [](double most, const ChannelTotals& one) { return std::max(most, one.high); }, 0, instance);
  }

  [[nodiscard]] std::string_view fact(std::string_view key) const { return fact_in(trace_.begin, key).value_or(""); }

  /// The measured channels of a metric.
  [[nodiscard]] std::vector<std::size_t> measured(std::string_view metric) const {
    std::vector<std::size_t> measured;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].metric == metric && totals_.channels[i].present > 0) measured.push_back(i);
    }
    return measured;
  }

  /// Both directions of the interfaces that lead out of the node; of all, where it is not known which these are.
  [[nodiscard]] std::vector<std::size_t> traffic() const {
    bool known = false;
    for (const auto& [name, value] : trace_.begin) known = known || is_device(name);
    std::vector<std::size_t> traffic;
    for (const std::string_view metric : {"net.rx_bytes", "net.tx_bytes"}) {
      for (const std::size_t i : measured(metric)) {
        const std::string& instance = channels_[i].instance;
        const std::string name = interface_name(instance);
        if (name == "lo") continue;
        // A bridge, a bond: counted below it.
        if (known && fact(interface_fact_key(name, "numa_node")).empty()) continue;
        const auto is_measured = [this, metric](std::string_view card) { return is_there(metric, card); };
        if (is_counted_at_cards(fact(interface_fact_key(instance, "cards")), is_measured)) continue;
        traffic.push_back(i);
      }
    }
    return traffic;
  }

  /// The increments of counters over the job; nothing without a channel.
  [[nodiscard]] std::optional<double> sum(std::span<const std::size_t> channels) const {
    std::optional<double> sum;
    for (const std::size_t i : channels) sum = sum.value_or(0) + totals_.channels[i].sum;
    return sum;
  }

  /// By the counter, or by the table of steps where increments of it were lost.
  [[nodiscard]] std::optional<double> most_steps() const {
    std::optional<double> most;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].metric != "stack.steps" || totals_.channels[i].present == 0) continue;
      most = std::max(most.value_or(0), std::round(totals_.channels[i].sum));
    }
    if (!most) return most;
    for (const TrainingStep& step : trace_.steps) most = std::max(*most, static_cast<double>(step.number));
    return most;
  }

  /// Why steps were made that are not counted; "": none are known.
  [[nodiscard]] std::string_view why_steps_are_missing() const {
    for (const Event& event : trace_.events) {
      if (event.object == "probe stack" && event.code == "steps_incomplete") return event.text;
    }
    return "";
  }

  [[nodiscard]] bool worked(std::string_view probe) const {
    return std::any_of(trace_.coverage.begin(), trace_.coverage.end(),
                       [probe](const Coverage& one) { return one.probe == probe && one.state == Coverage::State::ok; });
  }

  /// Why the probe measured nothing.
  [[nodiscard]] std::string why(std::string_view probe) const {
    for (const Coverage& one : trace_.coverage) {
      if (one.probe == probe && one.state != Coverage::State::ok && !one.reason.empty()) return one.reason;
    }
    return "not measured";
  }

  /// The job's GPUs of which anything was measured, by name.
  [[nodiscard]] std::map<std::string, GpuTotals> gpus() const {
    std::map<std::string, GpuTotals> gpus;
    for (const auto& [metric, member] : kGpuMetrics) {
      for (const std::size_t i : measured(metric)) {
        const std::string& gpu = channels_[i].instance;
        if (is_gpu_of_job(trace_.begin, trace_.end, gpu)) gpus[gpu].*member = &totals_.channels[i];
      }
    }
    return gpus;
  }
  [[nodiscard]] bool is_divided_gpu(const std::string& gpu) const { return is_divided(trace_.begin, trace_.end, gpu); }

  /// The gaps of the probes of GPUs that opened, or the reasons of those that did not.
  [[nodiscard]] std::string gpu_gaps(bool opened) const {
    std::string text;
    for (const Coverage& one : trace_.coverage) {
      const bool of_gpus = std::find(std::begin(kGpuProbes), std::end(kGpuProbes), one.probe) != std::end(kGpuProbes);
      if (!of_gpus || (one.state == Coverage::State::absent) == opened || one.reason.empty()) continue;
      text += (text.empty() ? "" : "; ") + one.reason;
    }
    return text;
  }

  /// Part of the run in which the channel has no value.
  [[nodiscard]] double missing_share(const ChannelTotals& channel) const {
    std::size_t most = 0;
    for (const ChannelTotals& one : totals_.channels) most = std::max(most, one.present);
    return most == 0 ? 1 : 1 - static_cast<double>(channel.present) / static_cast<double>(most);
  }

  [[nodiscard]] bool every_process_measured() const {
    return highest("job.processes").value_or(0) <= kMeasuredProcesses;
  }

 private:
  [[nodiscard]] bool is_there(std::string_view metric, std::string_view instance) const {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      const bool same = channels_[i].metric == metric && channels_[i].instance == instance;
      if (same && totals_.channels[i].present > 0) return true;
    }
    return false;
  }
  static bool is_device(std::string_view key) { return key.starts_with("net.") && key.ends_with(".numa_node"); }

  template <typename Join>
  std::optional<double> over(std::string_view metric, Join join, double start, std::string_view instance = {}) const {
    std::optional<double> all;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].metric != metric || totals_.channels[i].present == 0) continue;
      if (!instance.empty() && channels_[i].instance != instance) continue;
      all = join(all.value_or(start), totals_.channels[i]);
    }
    return all;
  }

  const NodeTrace& trace_;
  std::span<const Channel> channels_;
  const TraceTotals& totals_;
};

std::optional<double> positive(std::string_view text) {
  const auto value = parse_int(text);
  return value.value_or(0) > 0 ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

/// The number and, beside it, where it comes from or why there is none.
void put(JobTotals& totals, const char* key, std::optional<double> value, const std::string& note) {
  for (const TotalsNumber& total : kTotalsNumbers) {
    if (std::string_view(total.key) == key) totals.*total.value = value;
  }
  if (!note.empty()) totals.notes[key] = note;
}

/// The first metric of these that was measured counts all of the job; "": none was.
std::string_view cpu_time_of(const Node& node) {
  for (const std::string_view metric : {"job.cpu_time", "cgroup.cpu_usage"}) {
    if (!node.measured(metric).empty()) return metric;
  }
  return "";
}

struct Direction {
  const char* key;
  std::string_view of_processes;
  std::string_view of_group;
};
constexpr Direction kReading{"read_bytes", "process.read_bytes", "cgroup.read_bytes"};
constexpr Direction kWriting{"written_bytes", "process.write_bytes", "cgroup.write_bytes"};

std::string_view bytes_of(const Node& node, const Direction& direction) {
  if (!node.measured(direction.of_processes).empty() && node.every_process_measured()) return direction.of_processes;
  return node.measured(direction.of_group).empty() ? "" : direction.of_group;
}

void put_cpu(const Node& node, JobTotals& totals) {
  const std::string_view metric = cpu_time_of(node);
  std::optional<double> used = node.sum(metric);
  const std::string from =
      metric == "job.cpu_time" ? "the job's processes and the children they waited for" : "the job's control group";
  if (used) used = *used * 1e-9;
  put(totals, "cpu_seconds", used, used ? from : node.why("job"));

  std::optional<double> owned = node.highest("job.cpus_owned");
  if (!owned) owned = positive(std::to_string(parse_cpu_list(node.fact("job.cpus_owned")).size()));
  if (!owned) owned = positive(node.fact("cpu.count"));
  put(totals, "cpus_owned", owned, owned ? "the job's cpuset; without one, the node" : "not measured");
  if (used && owned && *totals.seconds > 0) {
    put(totals, "cpu_used_share", *used / (*owned * *totals.seconds), "");
  } else {
    put(totals, "cpu_used_share", std::nullopt, used ? "the number of cpus is not known" : node.why("job"));
  }
}

/// The kernel counts cached files and its own memory for the processes (page tables, buffers of sockets) toward the
/// limit of a control group; it drops the files before it kills a process. `peak`: without both.
bool reached_with_cache(const Node& node, std::optional<double> limit, std::optional<double> peak) {
  constexpr double kNear = 0.95;
  if (!limit || !peak || *peak >= kNear * *limit) return false;
  const double all =
      std::max(node.highest("group.memory", "job").value_or(0), node.highest("group.memory_peak", "job").value_or(0));
  return all >= kNear * *limit;
}

void put_memory(const Node& node, const TraceTotals& measured, JobTotals& totals) {
  if (!std::isnan(measured.cgroup_memory_peak)) {
    put(totals, "memory_peak", measured.cgroup_memory_peak, "the job's control group, page cache not counted");
  } else if (std::isnan(measured.process_memory_peak)) {
    put(totals, "memory_peak", std::nullopt, node.why("process"));
  } else if (!node.every_process_measured()) {
    put(totals, "memory_peak", std::nullopt,
        "the job has no control group of its own, and it has more processes than reveal measures individually");
  } else {
    put(totals, "memory_peak", measured.process_memory_peak,
        "resident memory of the job's processes; shared pages count once in each process");
  }

  constexpr double kMebi = 1024.0 * 1024.0;
  const std::optional<double> total = positive(node.fact("memory.total"));
  std::optional<double> limit = node.highest("group.memory_limit", "job");
  if (!std::isnan(measured.cgroup_memory_peak) && reached_with_cache(node, limit, totals.memory_peak)) {
    totals.notes["memory_peak"] += "; " + std::string(kLimitReachedWithCache);
  }
  std::string from = "limit of the job's control group";
  if (!limit) {
    from = "requested from Slurm";
    if (const auto whole = positive(node.fact("env.SLURM_MEM_PER_NODE"))) {
      limit = *whole * kMebi;
    } else if (const auto each = positive(node.fact("env.SLURM_MEM_PER_CPU")); each && totals.cpus_owned) {
      limit = *each * kMebi * *totals.cpus_owned;
    }
  }
  if (!limit || (total && *limit > *total)) {
    limit = total;
    from = "memory of the node";
  }
  put(totals, "memory_limit", limit, limit ? from : "not measured");
}

/// Whatever is known of the number of GPUs, nothing else is.
void put_no_gpu_values(JobTotals& totals, const std::string& note) {
  for (const TotalsNumber& total : kTotalsNumbers) {
    if (total.is_of_gpus() && total.value != &JobTotals::gpus) put(totals, total.key, std::nullopt, note);
  }
}

/// Null if one of the GPUs has no mean.
void put_gpu_use(const Node& node, const std::map<std::string, GpuTotals>& gpus, JobTotals& totals) {
  constexpr double kPercent = 100;
  constexpr double kMuch = 0.1;  // answers of a busy driver come late, and the first ones after the begin
  double sum = 0;
  std::string gaps;
  for (const auto& [gpu, measured] : gpus) {
    if (measured.use == nullptr) {
      put(totals, "gpu_used_share", std::nullopt, "not measured of " + gpu);
      return;
    }
    sum += measured.use->sum / static_cast<double>(measured.use->present) / kPercent;
    const double missing = node.missing_share(*measured.use);
    if (missing > kMuch)
      gaps += fmt::format("; {} was not measured for {} % of the run", gpu, number(kPercent * missing));
  }
  put(totals, "gpu_used_share", sum / static_cast<double>(gpus.size()),
      "mean utilization of the job's GPUs: the part of the time in which a kernel ran" + gaps);
}

void put_gpu_memory(const std::map<std::string, GpuTotals>& gpus, JobTotals& totals) {
  const GpuTotals* fullest = nullptr;
  std::string name;
  for (const auto& [gpu, measured] : gpus) {
    if (measured.memory_used == nullptr) {
      for (const char* key : {"gpu_memory_peak", "gpu_memory_total"}) {
        put(totals, key, std::nullopt, "not measured of " + gpu);
      }
      return;
    }
    if (fullest != nullptr && measured.memory_used->high <= fullest->memory_used->high) continue;
    fullest = &measured;
    name = gpu;
  }
  const double peak = fullest->memory_used->high;
  put(totals, "gpu_memory_peak", peak, "memory in use of " + name + ", including the driver's own");
  if (fullest->memory_free == nullptr) {
    put(totals, "gpu_memory_total", std::nullopt, "its free memory was not measured");
  } else {
    put(totals, "gpu_memory_total", peak + fullest->memory_free->low, "memory of " + name + ", used and free");
  }
}

void put_gpu_energy(const std::map<std::string, GpuTotals>& gpus, JobTotals& totals) {
  double sum = 0;
  for (const auto& [gpu, measured] : gpus) {
    if (measured.energy == nullptr) {
      put(totals, "gpu_energy_joules", std::nullopt,
          "the energy of " + gpu + " was not read twice: the driver does not report it, or the run was too short");
      return;
    }
    sum += measured.energy->sum * 1e-6;
  }
  put(totals, "gpu_energy_joules", sum,
      "the GPUs' own counters: energy before the first reading and after the last one is not counted");
}

/// Also where other jobs use the node: a GPU that was allocated to the job is its own.
void put_gpus(const Node& node, JobTotals& totals) {
  const std::map<std::string, GpuTotals> gpus = node.gpus();
  const std::string gaps = node.gpu_gaps(true);
  if (gpus.empty()) {
    const std::string absent = node.gpu_gaps(false);
    put(totals, "gpus", std::nullopt, !gaps.empty() ? gaps : !absent.empty() ? absent : "not measured");
    put_no_gpu_values(totals, "no GPU of the job was measured");
    return;
  }
  put(totals, "gpus", static_cast<double>(gpus.size()),
      "GPUs of the job that were measured" + (gaps.empty() ? "" : " (" + gaps + ")"));
  for (const auto& [gpu, measured] : gpus) {
    if (!node.is_divided_gpu(gpu)) continue;
    const std::string why = " is divided into parts: the driver's values are those of the whole GPU, not the job's";
    put_no_gpu_values(totals, gpu + why);
    return;
  }
  put_gpu_use(node, gpus, totals);
  put_gpu_memory(gpus, totals);
  put_gpu_energy(gpus, totals);
}

void put_io(const Node& node, JobTotals& totals) {
  for (const Direction& direction : {kReading, kWriting}) {
    const std::string_view metric = bytes_of(node, direction);
    if (metric.empty()) {
      put(totals, direction.key, std::nullopt,
          node.measured(direction.of_processes).empty()
              ? node.why("process")
              : "the job has more processes than reveal measures individually");
    } else {
      put(totals, direction.key, node.sum(metric),
          metric == direction.of_group ? "the job's control group, from and to block devices"
                                       : "the job's processes, from and to storage; data from a cache is not counted");
    }
  }
}

void put_waiting(const Node& node, JobTotals& totals) {
  const auto waited = node.sum("job.wait_time");
  if (waited && node.every_process_measured() && *totals.seconds > 0) {
    put(totals, "wait_share", *waited * 1e-9 / *totals.seconds,
        "tasks that were ready and had no cpu: summed seconds of all tasks in each second");
  } else {
    put(totals, "wait_share", std::nullopt,
        waited ? "the job has more processes than reveal measures individually" : node.why("job"));
  }
}

/// Ranks work in step: the highest count is the number of steps.
void put_steps(const Node& node, JobTotals& totals) {
  const auto steps = node.most_steps();
  if (const std::string_view why = node.why_steps_are_missing(); !why.empty()) {
    put(totals, "steps", std::nullopt,
        fmt::format("{} backward passes or more: they were not counted all the time ({})", number(steps.value_or(0)),
                    printable(why)));
    return;
  }
  put(totals, "steps", steps,
      steps                  ? "backward passes of PyTorch, of the rank that made the most"
      : node.worked("stack") ? "no backward pass of PyTorch was seen"
                             : "the job reports no steps");
}

void put_counters(const Node& node, JobTotals& totals) {
  struct Counter {
    const char* key;
    std::string_view metric;
  };
  constexpr Counter kCounters[] = {{"instructions", "pmu.instructions"},
                                   {"cycles", "pmu.cycles"},
                                   {"stalled_cycles", "pmu.backend_stalls"},
                                   {"cache_misses", "pmu.llc_misses"},
                                   {"remote_reads", "pmu.remote_dram"}};
  for (const Counter& counter : kCounters) {
    const auto sum = node.sum(counter.metric);
    put(totals, counter.key, sum,
        sum                            ? "the processors' counters, of the job's tasks"
        : node.worked("perf_hardware") ? "the processor does not count it"
                                       : node.why("perf_hardware"));
  }
}

std::optional<double> memory_traffic(const Node& node) {
  const auto read = node.sum("platform.memory_read");
  const auto written = node.sum("platform.memory_written");
  if (read && written) return *read + *written;
  return node.sum("platform.memory_traffic");
}

void put_node(const Node& node, bool shared, JobTotals& totals) {
  constexpr std::string_view kShared = "other jobs use the node";
  if (shared) {
    for (const char* key : {"network_bytes", "energy_joules", "memory_traffic"}) {
      put(totals, key, std::nullopt, std::string(kShared));
    }
    return;
  }
  const auto memory_bytes = memory_traffic(node);
  put(totals, "memory_traffic", memory_bytes,
      memory_bytes                   ? "the node's memory controllers, read and written"
      : node.worked("perf_platform") ? "the memory controllers of this machine are not counted"
                                     : node.why("perf_platform"));
  const auto traffic = node.sum(node.traffic());
  put(totals, "network_bytes", traffic,
      traffic ? "interfaces of the node, in and out; without RDMA" : node.why("network"));
  std::optional<double> energy = node.sum("energy.package");
  std::optional<double> memory = node.sum("energy.dram");
  if (!energy) {
    energy = node.sum("platform.energy_package");
    memory = node.sum("platform.energy_memory");
  }
  if (energy) energy = (*energy + memory.value_or(0)) * 1e-6;
  put(totals, "energy_joules", energy,
      !energy  ? node.why("energy")
      : memory ? "the node's cpus and memory"
               : "the node's cpus");
}

using NotesOfNodes = std::map<std::string_view, std::vector<std::string>>;

/// "the cpus and memory (on n[01-03]); the cpus (on n04)": the note of most nodes first.
std::string with_nodes(const NotesOfNodes& notes) {
  constexpr std::size_t kMostNotes = 3;
  std::vector<const NotesOfNodes::value_type*> sorted;
  sorted.reserve(notes.size());
  for (const auto& note : notes) sorted.push_back(&note);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->second.size() > b->second.size(); });
  std::vector<std::string> parts;
  parts.reserve(sorted.size());
  for (const auto* note : sorted) parts.push_back(fmt::format("{} (on {})", note->first, node_list(note->second)));
  return listed(parts, kMostNotes, "; ");
}

/// A limit is that of a node or of a GPU: sums would hide the one that nearly reached it.
void take_fullest(std::span<const JobTotals> nodes, std::initializer_list<const char*> keys,
                  std::optional<double> JobTotals::*peak, std::optional<double> JobTotals::*limit, JobTotals& whole) {
  const JobTotals* fullest = nullptr;
  for (const JobTotals& node : nodes) {
    if (node.*peak && (fullest == nullptr || *(node.*peak) > *(fullest->*peak))) fullest = &node;
  }
  if (fullest == nullptr || !(whole.*peak)) return;
  whole.*peak = fullest->*peak;
  whole.*limit = fullest->*limit;
  for (const char* key : keys) {
    const auto note = fullest->notes.find(key);
    if (note == fullest->notes.end()) continue;
    whole.notes[key] = note->second + (nodes.size() > 1 ? ", on " + fullest->node : "");
  }
}

/// The mean over the job's GPUs, from the nodes' means.
void join_gpu_use(std::span<const JobTotals> nodes, JobTotals& whole) {
  double used = 0;
  std::size_t without = 0;
  for (const JobTotals& node : nodes) {
    used += node.gpus.value_or(0) * node.gpu_used_share.value_or(0);
    without += node.gpus ? 0 : 1;
  }
  if (whole.gpu_used_share) whole.gpu_used_share = used / *whole.gpus;
  if (whole.gpus && without > 0) {
    whole.notes["gpus"] += fmt::format("; none on {} of {} nodes", without, nodes.size());
  }
}

}  // namespace

JobTotals node_totals(const NodeTrace& trace, std::span<const Channel> channels, const TraceTotals& totals,
                      double seconds, bool shared) {
  const Node node(trace, channels, totals);
  JobTotals row;
  row.node = trace.telemetry.node;
  row.seconds = seconds;
  put_cpu(node, row);
  put_memory(node, totals, row);
  put_gpus(node, row);
  put_io(node, row);
  put_waiting(node, row);
  put_steps(node, row);
  put(row, "iteration_seconds", std::nullopt, "not estimated");  // see put_iterations()
  put_counters(node, row);
  put_node(node, shared, row);
  return row;
}

JobChannels job_channels(const NodeTrace& trace, std::span<const Channel> channels, const TraceTotals& totals,
                         bool shared) {
  const Node node(trace, channels, totals);
  JobChannels of_job{.cpu_time = node.measured(cpu_time_of(node)),
                     .read_bytes = node.measured(bytes_of(node, kReading)),
                     .written_bytes = node.measured(bytes_of(node, kWriting))};
  if (shared) return of_job;
  of_job.network_bytes = node.traffic();
  of_job.rdma_bytes = node.measured("ib.rcv_bytes");
  const std::vector<std::size_t> sent = node.measured("ib.xmit_bytes");
  of_job.rdma_bytes.insert(of_job.rdma_bytes.end(), sent.begin(), sent.end());
  return of_job;
}

JobTotals whole_job(std::span<const JobTotals> nodes) {
  JobTotals whole;
  whole.nodes = static_cast<double>(nodes.size());
  double cpu_time_owned = 0;
  const bool has_gpus =
      std::any_of(nodes.begin(), nodes.end(), [](const JobTotals& node) { return node.gpus.has_value(); });
  for (const JobTotals& node : nodes) {
    if (node.cpus_owned && node.seconds) cpu_time_owned += *node.cpus_owned * *node.seconds;
  }
  for (const TotalsNumber& total : kTotalsNumbers) {
    const std::string_view key = total.key;
    const bool of_all = key == "seconds" || key == "steps" || key == "iteration_seconds";  // not of each
    NotesOfNodes notes;
    std::optional<double> sum;
    for (const JobTotals& node : nodes) {
      if (total.is_of_gpus() && has_gpus && !node.gpus) continue;  // a node without GPUs is no gap
      const auto note = node.notes.find(total.key);
      const std::optional<double>& value = node.*total.value;
      if (!value) {
        sum.reset();
        notes.clear();
        notes[note == node.notes.end() ? kNotMeasured : std::string_view(note->second)].push_back(node.node);
        break;
      }
      if (note != node.notes.end()) notes[note->second].push_back(node.node);
      sum = of_all ? std::max(sum.value_or(0), *value) : sum.value_or(0) + *value;
    }
    whole.*total.value = sum;
    const bool names_nodes = nodes.size() > 1 && (!sum || notes.size() > 1);
    if (!notes.empty()) whole.notes[total.key] = names_nodes ? with_nodes(notes) : std::string(notes.begin()->first);
  }
  whole.cpu_used_share.reset();
  if (whole.cpu_seconds && whole.cpus_owned && cpu_time_owned > 0) {
    whole.cpu_used_share = *whole.cpu_seconds / cpu_time_owned;
  }
  take_fullest(nodes, {"memory_peak", "memory_limit"}, &JobTotals::memory_peak, &JobTotals::memory_limit, whole);
  take_fullest(nodes, {"gpu_memory_peak", "gpu_memory_total"}, &JobTotals::gpu_memory_peak,
               &JobTotals::gpu_memory_total, whole);
  join_gpu_use(nodes, whole);
  return whole;
}

}  // namespace reveal
