#include "postproc/telemetry/derived_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/telemetry/derived.h"

namespace reveal {
namespace {

// Nothing was done, so nothing can be said of how it was done.
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
double rest_of_time(const double* in, double step) {
  return std::clamp(1 - (in[0] + in[1]) * 1e-9 / step, 0.0, 1.0);
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
constexpr std::string_view kPaperOurs = "arXiv 2510.26008, appendix B, which gives no formula: this one is ours";
constexpr std::string_view kTurbostat = "turbostat(8)";

constexpr DerivedMetric kMetrics[] = {
    {"pmu.ipc", "instructions per cycle", Unit::ratio, Subsystem::cpu, all_instances, "instructions / cycles",
     "pmu.instructions pmu.cycles", first_of_second, kPaper},
    {"pmu.branch_miss_rate", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "branch_misses / branches",
     "pmu.branch_misses pmu.branches", first_of_second, kPaper},
    {"pmu.cache_miss_ratio", "ratio", Unit::ratio, Subsystem::memory, all_instances, "llc_misses / llc_references",
     "pmu.llc_misses pmu.llc_references", first_of_second, kPaper},
    {"pmu.cache_misses_per_instruction", "per instruction", Unit::ratio, Subsystem::memory, all_instances,
     "llc_misses / instructions", "pmu.llc_misses pmu.instructions", first_of_second, kPaper},
    {"pmu.l3_stall_ratio", "ratio", Unit::ratio, Subsystem::memory, all_instances, "l3_stalls / cycles",
     "pmu.l3_stalls pmu.cycles", first_of_second, kPaper},
    {"pmu.stall_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "backend_stalls / cycles",
     "pmu.backend_stalls pmu.cycles", first_of_second, kPaper},
    {"pmu.frontend_stall_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "frontend_stalls / cycles",
     "pmu.frontend_stalls pmu.cycles", first_of_second, kPaper},
    {"pmu.occupancy_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "1 - backend_stalls / cycles",
     "pmu.backend_stalls pmu.cycles", rest_of_second, kPaperOurs},
    {"pmu.memory_operations_per_cycle", "per cycle", Unit::ratio, Subsystem::memory, all_instances,
     "(loads + stores) / cycles", "pmu.loads pmu.stores pmu.cycles", first_two_of_third, kPaperOurs},
    {"pmu.remote_share", "ratio", Unit::ratio, Subsystem::memory, all_instances, "remote_dram / llc_misses",
     "pmu.remote_dram pmu.llc_misses", first_of_second, kPaperOurs},
    {"pmu.clock_ratio", "ratio", Unit::ratio, Subsystem::cpu, all_instances, "cycles / reference_cycles",
     "pmu.cycles pmu.reference_cycles", first_of_second, kTurbostat},
    {"cpu.utilization_of_cpu", "ratio", Unit::ratio, Subsystem::cpu, each_instance,
     "1 - (idle + iowait) / time; of the whole node: cpu.utilization", "cpu.idle cpu.iowait", rest_of_time, kPaper},
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
    {"platform.busy", "percent", Unit::percent, Subsystem::cpu, each_instance, "100 * mperf / tsc (Busy%)",
     "platform.mperf platform.tsc", percent_of_second, kTurbostat},
    {"platform.busy_frequency", "Hz", Unit::hertz, Subsystem::cpu, each_instance, "aperf / mperf * tsc / dt (Bzy_MHz)",
     "platform.aperf platform.mperf platform.tsc", ratio_of_rate, kTurbostat},
    {"platform.package_power", "W", Unit::watts, Subsystem::cpu, each_instance, "d energy / dt (PkgWatt)",
     "energy.package", microjoules_per_second, kTurbostat},
    {"platform.package_power", "W", Unit::watts, Subsystem::cpu, each_instance, "d energy / dt (PkgWatt)",
     "platform.energy_package", microjoules_per_second, kTurbostat},
    {"platform.memory_power", "W", Unit::watts, Subsystem::memory, each_instance, "d energy / dt (RAMWatt)",
     "energy.dram", microjoules_per_second, kTurbostat},
    {"platform.memory_power", "W", Unit::watts, Subsystem::memory, each_instance, "d energy / dt (RAMWatt)",
     "platform.energy_memory", microjoules_per_second, kTurbostat},
    {"platform.memory_bandwidth", "bytes/s", Unit::bytes, Subsystem::memory, each_instance, "d (read + written) / dt",
     "platform.memory_read platform.memory_written", sum_per_second, kPaper},
    {"platform.memory_bandwidth", "bytes/s", Unit::bytes, Subsystem::memory, each_instance, "d traffic / dt",
     "platform.memory_traffic", per_second, kPaper},
};

/// Channels of one derived channel: per input those that are summed.
struct Inputs {
  std::string instance;
  std::array<std::vector<std::size_t>, kMostDerivedInputs> channels;
};

std::vector<std::string_view> inputs_of(const DerivedMetric& derived) {
  std::vector<std::string_view> names;
  std::string_view rest = derived.inputs;
  for (std::string_view name = next_word(rest); !name.empty(); name = next_word(rest)) names.push_back(name);
  return names;
}

/// Complete sets of inputs, by instance.
std::vector<Inputs> find_inputs(const Telemetry& telemetry, const DerivedMetric& derived) {
  const std::vector<std::string_view> names = inputs_of(derived);
  std::map<std::string, Inputs> by_instance;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.family == kDerivedFamily) continue;
    for (std::size_t input = 0; input < names.size(); ++input) {
      if (channel.metric != names[input]) continue;
      const std::string instance = derived.over == all_instances ? "" : channel.instance;
      by_instance[instance].channels[input].push_back(i);
    }
  }
  std::vector<Inputs> complete;
  for (auto& [instance, inputs] : by_instance) {
    const auto begin = inputs.channels.begin();
    const auto present = [](const std::vector<std::size_t>& channels) { return !channels.empty(); };
    if (!std::all_of(begin, begin + static_cast<std::ptrdiff_t>(names.size()), present)) continue;
    inputs.instance = instance;
    complete.push_back(std::move(inputs));
  }
  return complete;
}

void compute(const Telemetry& telemetry, const DerivedMetric& derived, const Inputs& inputs,
             decltype(Telemetry::values)& values) {
  const std::size_t count = inputs_of(derived).size();
  std::array<double, kMostDerivedInputs> in{};
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    bool known = true;
    for (std::size_t input = 0; input < count; ++input) {
      in[input] = 0;
      for (const std::size_t channel : inputs.channels[input]) in[input] += telemetry.series(channel)[t];
      known = known && !std::isnan(in[input]);
    }
    values.push_back(known ? derived.compute(in.data(), telemetry.step_seconds) : kNaN);
  }
}

Channel channel_of(const Telemetry& telemetry, const DerivedMetric& derived, const Inputs& inputs) {
  Channel channel = telemetry.channels[inputs.channels[0].front()];  // its role, its scope, its pace
  channel.metric = derived.metric;
  channel.instance = inputs.instance;
  channel.family = kDerivedFamily;
  channel.kind = Kind::gauge;
  channel.unit = derived.unit;
  channel.subsystem = derived.subsystem;
  return channel;
}

}  // namespace

std::span<const DerivedMetric> derived_metrics() {
  return kMetrics;
}

Telemetry derived_channels(const Telemetry& telemetry) {
  Telemetry derived{.node = telemetry.node,
                    .step_seconds = telemetry.step_seconds,
                    .begin_utc_ns = telemetry.begin_utc_ns,
                    .samples = telemetry.samples,
                    .channels = {},
                    .values = {}};
  for (const DerivedMetric& metric : kMetrics) {
    const bool done = std::any_of(derived.channels.begin(), derived.channels.end(),
                                  [&](const Channel& channel) { return channel.metric == metric.metric; });
    const std::vector<Inputs> found = done ? std::vector<Inputs>() : find_inputs(telemetry, metric);
    for (const Inputs& inputs : found) {
      derived.channels.push_back(channel_of(telemetry, metric, inputs));
      compute(telemetry, metric, inputs, derived.values);
    }
  }
  return derived;
}

void append_derived_metrics(Telemetry& telemetry) {
  Telemetry derived = derived_channels(telemetry);
  telemetry.channels.insert(telemetry.channels.end(), derived.channels.begin(), derived.channels.end());
  telemetry.values.insert(telemetry.values.end(), derived.values.begin(), derived.values.end());
}

}  // namespace reveal
