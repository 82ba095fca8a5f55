#include "core/pmu/platform_events.h"

#include <algorithm>
#include <map>

#include "core/pmu/event_table.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using enum Microarchitecture;

constexpr MetricHelp kTraffic[] = {
    {"platform.memory_read", "Bytes that the memory controllers read."},
    {"platform.memory_written", "Bytes that the memory controllers wrote."},
    {"platform.memory_traffic",
     "Bytes that the memory channels moved, if reads and writes are not counted separately."},
};
constexpr MetricHelp kEnergy[] = {
    {"platform.energy_package", "Energy of the processor package."},
    {"platform.energy_cores", "Energy of its cores."},
    {"platform.energy_memory", "Energy of its memory."},
};
constexpr MetricHelp kCycles[] = {
    {"platform.aperf", "Cycles at the actual clock while the cpu was not idle."},
    {"platform.mperf", "Cycles at the nominal clock while it was not idle."},
    {"platform.tsc", "Cycles at the nominal clock, idle or not."},
    {"platform.core_c6", "Time the cores were in C6, in cycles at the nominal clock."},
    {"platform.package_c6", "Time the package was in C6, in cycles at the nominal clock."},
};
constexpr MetricHelp kInterruptions[] = {
    {"platform.smi", "System management interrupts: the firmware took the cpu away from the kernel."}};
constexpr MetricHelp kCache[] = {
    {"platform.l3_accesses", "Requests to the L3."},
    {"platform.l3_misses", "Requests that missed the L3."},
};
constexpr FamilyTable kFamilies[] = {
    {"platform/memory_traffic", Kind::counter, Unit::bytes, Scope::device, Subsystem::memory, "Memory traffic",
     "/sys/bus/event_source/devices/{uncore_imc_*,amd_umc_*,amd_df}", kTraffic},
    {"platform/energy", Kind::counter, Unit::microjoules, Scope::device, Subsystem::cpu, "Energy (RAPL)",
     "/sys/bus/event_source/devices/power", kEnergy},
    {"platform/cycles", Kind::counter, Unit::count, Scope::device, Subsystem::cpu, "Clocks and sleep states",
     "/sys/bus/event_source/devices/{msr,cstate_core,cstate_pkg}", kCycles},
    {"platform/interruptions", Kind::event, Unit::count, Scope::device, Subsystem::cpu, "Firmware interruptions",
     "/sys/bus/event_source/devices/msr", kInterruptions},
    {"platform/l3", Kind::counter, Unit::count, Scope::device, Subsystem::cpu, "L3 cache of AMD processors",
     "/sys/bus/event_source/devices/amd_l3", kCache},
};

struct Row {
  std::string_view source;  // prefix of the PMUs' names; a number may follow
  std::string_view event;   // named in sysfs; or terms ("event=0x0a,rdwrmask=0x1") where the kernel names none
  std::size_t family, metric;
  Designs designs;  // 0: any
  double factor;    // factor for terms; events of sysfs have a scale and a unit there
};
constexpr Designs kZen2And3 = designs({zen2, zen3});
constexpr Designs kZen3And4 = designs({zen3, zen4});

// AMD: Processor Programming References of the families, as perf's own tables have them.
constexpr Row kRows[] = {
    {"uncore_imc_", "cas_count_read", 0, 0, 0, 1},
    {"uncore_imc_", "cas_count_write", 0, 1, 0, 1},
    {"amd_umc_", "event=0x0a,rdwrmask=0x1", 0, 0, 0, 64},
    {"amd_umc_", "event=0x0a,rdwrmask=0x2", 0, 1, 0, 64},
    {"amd_df", "event=0x07,umask=0x38", 0, 2, kZen2And3, 64},  // one row per channel of the die
    {"amd_df", "event=0x47,umask=0x38", 0, 2, kZen2And3, 64},
    {"amd_df", "event=0x87,umask=0x38", 0, 2, kZen2And3, 64},
    {"amd_df", "event=0xc7,umask=0x38", 0, 2, kZen2And3, 64},
    {"amd_df", "event=0x107,umask=0x38", 0, 2, kZen2And3, 64},
    {"amd_df", "event=0x147,umask=0x38", 0, 2, kZen2And3, 64},
    {"amd_df", "event=0x187,umask=0x38", 0, 2, kZen2And3, 64},
    {"amd_df", "event=0x1c7,umask=0x38", 0, 2, kZen2And3, 64},
    {"power", "energy-pkg", 1, 0, 0, 1},
    {"power", "energy-cores", 1, 1, 0, 1},
    {"power", "energy-ram", 1, 2, 0, 1},
    {"msr", "aperf", 2, 0, 0, 1},
    {"msr", "mperf", 2, 1, 0, 1},
    {"msr", "tsc", 2, 2, 0, 1},
    {"msr", "smi", 3, 0, 0, 1},
    {"cstate_core", "c6-residency", 2, 3, 0, 1},
    {"cstate_pkg", "c6-residency", 2, 4, 0, 1},
    {"amd_l3", "event=0x04,umask=0xff", 4, 0, kZen3And4, 1},
    {"amd_l3", "event=0x04,umask=0x01", 4, 1, kZen3And4, 1},
};

/// Up to so many cpus have channels of their own; of more, only their packages have.
constexpr std::size_t kMostPerCpu = 64;

double factor_of(KernelTree& fs, const EventSource& source, const Row& row) {
  const std::string unit = source.unit(fs, row.event);
  const double scale = source.scale(fs, row.event);
  if (unit == "MiB") return scale * 1024 * 1024;
  if (unit == "Joules") return scale * 1e6;
  return scale;
}

/// "uncore_imc_2" for "uncore_imc_", but not "uncore_imc_free_running_0".
bool is_one_of(std::string_view name, std::string_view source) {
  name.remove_prefix(source.size());
  return std::all_of(name.begin(), name.end(), [](char letter) { return letter >= '0' && letter <= '9'; });
}

class Finder {
 public:
  Finder(KernelTree& fs, const std::vector<int>& cpus_online)
      : fs_(fs), online_(cpus_online), microarchitecture_(microarchitecture_of(fs)) {}

  std::vector<PlatformEvent> run() {
    std::string_view done;
    for (const Row& row : kRows) {
      if (row.source == done) continue;
      done = row.source;
      for (const std::string& name : event_source_names(fs_, row.source)) {
        if (!is_one_of(name, row.source)) continue;
        if (const auto source = EventSource::look(fs_, name)) add(*source, row.source);
      }
    }
    return std::move(found_);
  }

 private:
  void add(const EventSource& source, std::string_view rows) {
    for (const int cpu : source.cpus().empty() ? online_ : source.cpus()) {
      const bool per_cpu = source.cpus().empty() && online_.size() <= kMostPerCpu;
      const std::string instance = per_cpu ? "cpu" + std::to_string(cpu) : package_of(cpu);
      for (const Row& row : kRows) {
        if (row.source != rows || (row.designs != 0 && (row.designs & designs({microarchitecture_})) == 0)) continue;
        const bool named = row.event.find('=') == std::string_view::npos;
        const auto event = named ? source.event(fs_, row.event) : source.encode(row.event);
        if (!event) continue;
        found_.push_back({.metric = kFamilies[row.family].metrics[row.metric].name,
                          .family = row.family,
                          .instance = instance,
                          .source = source.name(),
                          .cpu = cpu,
                          .event = *event,
                          .factor = named ? factor_of(fs_, source, row) : row.factor});
      }
    }
  }

  const std::string& package_of(int cpu) {
    const auto [place, added] = packages_.try_emplace(cpu);
    if (added) {
      const std::string id =
          fs_.word("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id");
      place->second = "package" + (id.empty() || id.front() == '-' ? "0" : id);
    }
    return place->second;
  }

  KernelTree& fs_;
  const std::vector<int>& online_;
  Microarchitecture microarchitecture_;
  std::map<int, std::string> packages_;
  std::vector<PlatformEvent> found_;
};

}  // namespace

std::span<const FamilyTable> platform_families() {
  return kFamilies;
}

std::vector<PlatformEvent> platform_events(KernelTree& fs, const std::vector<int>& cpus_online) {
  return Finder(fs, cpus_online).run();
}

}  // namespace reveal
