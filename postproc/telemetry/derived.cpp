#include "postproc/telemetry/derived.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/telemetry/outsider_cpu.h"

namespace reveal {
namespace {

// Without work, the ratio is not defined.
double ratio(double part, double whole) {
  return whole > 0 ? part / whole : kNaN;
}

double first_of_second(const double* in, double /*step*/) {
  return ratio(in[0], in[1]);
}
double rest_of_second(const double* in, double /*step*/) {
  return 1 - ratio(in[0], in[1]);
}
double per_second(const double* in, double step) {
  return in[0] / step;
}
double sum_per_second(const double* in, double step) {
  return (in[0] + in[1]) / step;
}
double nanoseconds_per_second(const double* in, double step) {
  return in[0] * 1e-9 / step;
}
double microjoules_per_second(const double* in, double step) {
  return in[0] * 1e-6 / step;
}
double first_two_of_third(const double* in, double /*step*/) {
  return ratio(in[0] + in[1], in[2]);
}
double busy_share(const double* in, double /*step*/) {
  const double busy = in[0] + in[1] + in[2];
  return ratio(busy, busy + in[3] + in[4]);
}
double busier_direction(const double* in, double step) {
  return ratio(std::max(in[0], in[1]) * 8 / step, in[2]);
}
double percent_of_second(const double* in, double /*step*/) {
  return 100 * ratio(in[0], in[1]);
}
double ratio_of_rate(const double* in, double step) {
  return ratio(in[0], in[1]) * in[2] / step;
}

using enum DerivedMetric::Over;
constexpr std::string_view kPaper = "arXiv 2510.26008, appendix B";
constexpr std::string_view kNoSource = "reveal";
constexpr std::string_view kPaperOurs = "arXiv 2510.26008, appendix B, which gives no formula: this one is ours";
constexpr std::string_view kTurbostat = "turbostat(8)";

constexpr DerivedMetric kMetrics[] = {
    {"job.outsider_cpu", "cpus", Unit::ratio, Subsystem::cpu, all_instances,
     "user + nice + system of the job's cpus - cpu_time of the job and of reveal",
     "cpu.user cpu.nice cpu.system cpu.irq cpu.softirq job.cpu_allowed job.cpu_time self.cpu_time", nullptr, kNoSource,
     Scope::job, outsider_cpu},
    {"cpu.utilization", "ratio", Unit::ratio, Subsystem::cpu, all_and_each,
     "(user + nice + system) / (user + nice + system + idle + iowait)",
     "cpu.user cpu.nice cpu.system cpu.idle cpu.iowait", busy_share, kPaper, Scope::node},
    {"pmu.ipc", "instructions per cycle", Unit::ratio, Subsystem::cpu, all_instances, "instructions / cycles",
     "pmu.instructions pmu.cycles", first_of_second, kPaper, Scope::job},
    {"pmu.branch_miss_rate", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "branch_misses / branches",
     "pmu.branch_misses pmu.branches", first_of_second, kPaper, Scope::job},
    {"pmu.cache_miss_ratio", "ratio", Unit::ratio, Subsystem::memory, all_instances, "llc_misses / llc_references",
     "pmu.llc_misses pmu.llc_references", first_of_second, kPaper, Scope::job},
    {"pmu.cache_misses_per_instruction", "per instruction", Unit::ratio, Subsystem::memory, all_instances,
     "llc_misses / instructions", "pmu.llc_misses pmu.instructions", first_of_second, kPaper},
    {"pmu.l3_stall_ratio", "ratio", Unit::ratio, Subsystem::memory, all_instances, "l3_stalls / cycles",
     "pmu.l3_stalls pmu.cycles", first_of_second, kPaper, Scope::job},
    {"pmu.stall_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "backend_stalls / cycles",
     "pmu.backend_stalls pmu.cycles", first_of_second, kPaper, Scope::job},
    {"pmu.frontend_stall_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "frontend_stalls / cycles",
     "pmu.frontend_stalls pmu.cycles", first_of_second, kPaper, Scope::job},
    {"pmu.occupancy_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "1 - backend_stalls / cycles",
     "pmu.backend_stalls pmu.cycles", rest_of_second, kPaperOurs},
    {"pmu.memory_operations_per_cycle", "per cycle", Unit::ratio, Subsystem::memory, all_instances,
     "(loads + stores) / cycles", "pmu.loads pmu.stores pmu.cycles", first_two_of_third, kPaperOurs},
    {"pmu.remote_share", "ratio", Unit::ratio, Subsystem::memory, all_instances, "remote_dram / llc_misses",
     "pmu.remote_dram pmu.llc_misses", first_of_second, kPaperOurs, Scope::job},
    {"pmu.clock_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "cycles / reference_cycles",
     "pmu.cycles pmu.reference_cycles", first_of_second, kTurbostat, Scope::job},
    {"mem.utilization", "ratio", Unit::ratio, Subsystem::memory, all_instances, "1 - available / total",
     "mem.available mem.total", rest_of_second, kPaper},
    {"net.utilization", "ratio", Unit::ratio, Subsystem::network, each_instance, "max(rx, tx) * 8 / speed",
     "net.rx_bytes net.tx_bytes net.speed", busier_direction, kPaper},
    {"disk.utilization", "ratio", Unit::ratio, Subsystem::storage, each_instance, "io_time / time", "disk.io_time",
     nanoseconds_per_second, kPaper},
    {"net.rx_throughput", "bytes/s", Unit::bytes, Subsystem::network, each_instance, "d rx_bytes / dt", "net.rx_bytes",
     per_second, kPaper},
    {"net.tx_throughput", "bytes/s", Unit::bytes, Subsystem::network, each_instance, "d tx_bytes / dt", "net.tx_bytes",
     per_second, kPaper},
    {"disk.read_throughput", "bytes/s", Unit::bytes, Subsystem::storage, each_instance, "d read_bytes / dt",
     "disk.read_bytes", per_second, kPaper},
    {"disk.write_throughput", "bytes/s", Unit::bytes, Subsystem::storage, each_instance, "d write_bytes / dt",
     "disk.write_bytes", per_second, kPaper},
    {"disk.operations_rate", "1/s", Unit::count, Subsystem::storage, each_instance, "d (reads + writes) / dt",
     "disk.reads disk.writes", sum_per_second, kPaper},
    {"cpu.context_switch_rate", "1/s", Unit::count, Subsystem::cpu, all_instances, "d context_switches / dt",
     "cpu.context_switches", per_second, kPaper},
    {"cpu.interrupt_rate", "1/s", Unit::count, Subsystem::cpu, all_instances, "d interrupts / dt", "cpu.interrupts",
     per_second, kPaper},
    {"perf.cpus_used", "cpus", Unit::ratio, Subsystem::cpu, all_instances, "d task_clock / dt", "perf.task_clock",
     nanoseconds_per_second, kPaper},
    {"platform.busy", "percent", Unit::percent, Subsystem::cpu, all_and_each, "100 * mperf / tsc (Busy%)",
     "platform.mperf platform.tsc", percent_of_second, kTurbostat, Scope::node},
    {"platform.busy_frequency", "Hz", Unit::hertz, Subsystem::cpu, mean_and_each, "aperf / mperf * tsc / dt (Bzy_MHz)",
     "platform.aperf platform.mperf platform.tsc", ratio_of_rate, kTurbostat, Scope::node},
    {"platform.package_power", "W", Unit::watts, Subsystem::cpu, each_instance, "d energy / dt (PkgWatt)",
     "energy.package", microjoules_per_second, kTurbostat},
    {"platform.package_power", "W", Unit::watts, Subsystem::cpu, each_instance, "d energy / dt (PkgWatt)",
     "platform.energy_package", microjoules_per_second, kTurbostat},
    {"platform.memory_power", "W", Unit::watts, Subsystem::memory, each_instance, "d energy / dt (RAMWatt)",
     "energy.dram", microjoules_per_second, kTurbostat},
    {"platform.memory_power", "W", Unit::watts, Subsystem::memory, each_instance, "d energy / dt (RAMWatt)",
     "platform.energy_memory", microjoules_per_second, kTurbostat},
    {"platform.memory_bandwidth", "bytes/s", Unit::bytes, Subsystem::memory, all_and_each, "d (read + written) / dt",
     "platform.memory_read platform.memory_written", sum_per_second, kPaper, Scope::node},
    {"platform.memory_bandwidth", "bytes/s", Unit::bytes, Subsystem::memory, all_and_each, "d traffic / dt",
     "platform.memory_traffic", per_second, kPaper, Scope::node},
};

std::vector<std::string_view> inputs_of(const DerivedMetric& derived) {
  std::vector<std::string_view> names;
  std::string_view rest = derived.inputs;
  for (std::string_view name = next_word(rest); !name.empty(); name = next_word(rest)) names.push_back(name);
  return names;
}

/// Channels of one derived channel: per input those that are summed.
struct Inputs {
  std::string instance;
  std::array<std::vector<std::size_t>, kMostDerivedInputs> channels;
};

bool of_the_node_too(const DerivedMetric& derived) {
  return derived.over == all_and_each || derived.over == mean_and_each;
}

/// Complete sets of inputs by instance; the set of the whole, with the instance "", comes first.
std::vector<Inputs> find_inputs(const Telemetry& telemetry, const DerivedMetric& derived) {
  const std::vector<std::string_view> names = inputs_of(derived);
  std::map<std::string, Inputs> by_instance;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.family == kDerivedFamily) continue;
    for (std::size_t input = 0; input < names.size(); ++input) {
      if (channel.metric != names[input] || (of_the_node_too(derived) && channel.instance.empty())) continue;
      const std::string instance = derived.over == all_instances ? "" : channel.instance;
      by_instance[instance].channels[input].push_back(i);
    }
  }
  std::vector<Inputs> complete;
  Inputs all;
  for (auto& [instance, inputs] : by_instance) {
    const auto begin = inputs.channels.begin();
    const auto present = [](const std::vector<std::size_t>& channels) { return !channels.empty(); };
    if (!std::all_of(begin, begin + static_cast<std::ptrdiff_t>(names.size()), present)) continue;
    for (std::size_t input = 0; input < names.size(); ++input) {
      all.channels[input].insert(all.channels[input].end(), inputs.channels[input].begin(),
                                 inputs.channels[input].end());
    }
    inputs.instance = instance;
    complete.push_back(std::move(inputs));
  }
  if (of_the_node_too(derived) && !complete.empty()) complete.insert(complete.begin(), std::move(all));
  return complete;
}

std::vector<double> computed(const Telemetry& telemetry, const DerivedMetric& derived, const Inputs& inputs) {
  const std::size_t count = inputs_of(derived).size();
  std::array<std::vector<double>, kMostDerivedInputs> sums;
  for (std::size_t input = 0; input < count; ++input) {
    sums[input].assign(telemetry.samples, 0.0);
    for (const std::size_t channel : inputs.channels[input]) {
      const auto series = telemetry.series(channel);
      for (std::size_t t = 0; t < series.size(); ++t) sums[input][t] += series[t];
    }
    if (derived.over != mean_and_each) continue;
    for (double& sum : sums[input]) sum /= static_cast<double>(inputs.channels[input].size());
  }
  std::vector<double> values(telemetry.samples);
  std::array<double, kMostDerivedInputs> in{};
  for (std::size_t t = 0; t < values.size(); ++t) {
    bool known = true;
    for (std::size_t input = 0; input < count; ++input) {
      in[input] = sums[input][t];
      known = known && !std::isnan(in[input]);
    }
    values[t] = known ? derived.compute(in.data(), telemetry.step_seconds) : kNaN;
  }
  return values;
}

/// Returns the channel of a derived metric that detectors see.
Channel channel_of(const DerivedMetric& derived, double step_seconds) {
  return {.metric = std::string(derived.metric),
          .family = std::string(kDerivedFamily),
          .role = "job",
          .kind = Kind::gauge,
          .unit = derived.unit,
          .scope = derived.detected_scope.value_or(Scope::node),
          .subsystem = derived.subsystem,
          .period_seconds = step_seconds};
}

/// Its role, its scope and its pace are those of the first input.
Channel channel_of(const DerivedMetric& derived, const Inputs& inputs, const Telemetry& telemetry) {
  Channel channel = telemetry.channels[inputs.channels[0].front()];
  channel.metric = derived.metric;
  channel.instance = inputs.instance;
  channel.family = kDerivedFamily;
  channel.kind = Kind::gauge;
  channel.unit = derived.unit;
  channel.subsystem = derived.subsystem;
  return channel;
}

DerivedSeries series_of(const DerivedMetric& derived, Inputs inputs) {
  return [&derived, inputs = std::move(inputs)](const Telemetry& piece) { return computed(piece, derived, inputs); };
}

using Rows = std::vector<DerivedChannels::Row>;

bool holds(const Rows& rows, std::string_view metric) {
  return std::any_of(rows.begin(), rows.end(), [metric](const auto& row) { return row.channel.metric == metric; });
}

bool holds(const Telemetry& telemetry, std::string_view metric, std::optional<std::string_view> instance = {}) {
  return std::any_of(telemetry.channels.begin(), telemetry.channels.end(), [&](const Channel& channel) {
    return channel.metric == metric && channel.instance == instance.value_or(channel.instance);
  });
}

Rows detected_rows(const Telemetry& job) {
  Rows rows;
  for (const DerivedMetric& derived : kMetrics) {
    if (!derived.detected_scope || holds(job, derived.metric) || holds(rows, derived.metric)) continue;
    DerivedSeries series;
    if (derived.series != nullptr) {
      series = derived.series(job);
    } else if (auto found = find_inputs(job, derived); !found.empty()) {
      series = series_of(derived, std::move(found.front()));
    }
    if (series) rows.push_back({channel_of(derived, job.step_seconds), std::move(series)});
  }
  return rows;
}

Rows other_rows(const Telemetry& job) {
  Rows rows;
  for (const DerivedMetric& derived : kMetrics) {
    if (derived.compute == nullptr || holds(rows, derived.metric)) continue;
    for (Inputs& inputs : find_inputs(job, derived)) {
      if (holds(job, derived.metric, inputs.instance)) continue;
      Channel channel = channel_of(derived, inputs, job);
      rows.push_back({std::move(channel), series_of(derived, std::move(inputs))});
    }
  }
  return rows;
}

}  // namespace

std::span<const DerivedMetric> derived_metrics() {
  return kMetrics;
}

std::vector<std::string_view> inputs_of_derived(std::string_view metric) {
  const auto* const known = std::find_if(std::begin(kMetrics), std::end(kMetrics), [metric](const DerivedMetric& row) {
    return row.metric == metric && row.detected_scope;
  });
  return known == std::end(kMetrics) ? std::vector<std::string_view>() : inputs_of(*known);
}

void DerivedChannels::append_to(Telemetry& piece) {
  if (!rows_) rows_ = which_ == Which::detected ? detected_rows(piece) : other_rows(piece);
  for (const Row& row : *rows_) {
    const std::vector<double> values = row.series(piece);
    piece.channels.push_back(row.channel);
    piece.values.insert(piece.values.end(), values.begin(), values.end());
  }
}

void append_derived(Telemetry& telemetry) {
  DerivedChannels().append_to(telemetry);
}

}  // namespace reveal
