// The clock each cpu really runs at, and the bounds it is kept in, if the kernel has cpufreq. Virtual machines have
// none.
// https://docs.kernel.org/admin-guide/pm/cpufreq.html
#include <array>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/pace.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::cpu_frequency {
namespace {

constexpr MetricHelp kNow[] = {
    {"cpu.frequency", "Current clock as the cpufreq driver reports it; on more than 64 cpus their mean."},
    {"cpu.frequency_spread", "On more than 64 cpus: standard deviation over them."},
    {"cpu.frequency_min", "On more than 64 cpus: clock of the slowest cpu."},
    {"cpu.frequency_max", "On more than 64 cpus: clock of the fastest cpu."},
};
constexpr MetricHelp kNowPlaces[] = {
    {"cpu.frequency_min_cpu", "On more than 64 cpus: the slowest cpu."},
    {"cpu.frequency_max_cpu", "On more than 64 cpus: the fastest cpu."},
};
constexpr MetricHelp kLimits[] = {
    {"cpu.frequency_floor", "Lowest clock the governor may choose."},
    {"cpu.frequency_ceiling", "Highest clock the governor may choose; lowered by thermal and power capping."},
    {"cpu.frequency_<limit>_<summary>", "On more than 64 cpus: spread, min and max over them."},
};
constexpr MetricHelp kLimitPlaces[] = {
    {"cpu.frequency_<limit>_<extreme>_cpu", "On more than 64 cpus: the cpus with the lowest and the highest value."}};

constexpr FamilyTable kNowFamilies[] = {
    {"cpu/frequency", Kind::gauge, Unit::hertz, Scope::cpu, Subsystem::cpu, "Current cpu clock",
     "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq", kNow},
    {"cpu/frequency_places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu, "Slowest and fastest cpu",
     "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq", kNowPlaces},
};
constexpr FamilyTable kLimitFamilies[] = {
    {"cpu/frequency_limits", Kind::gauge, Unit::hertz, Scope::cpu, Subsystem::cpu, "Bounds of the cpu clock",
     "/sys/devices/system/cpu/cpu*/cpufreq/scaling_{min,max}_freq", kLimits},
    {"cpu/frequency_limit_places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu,
     "Cpus with the lowest and highest bounds", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_{min,max}_freq",
     kLimitPlaces},
};
constexpr std::string_view kNowFiles[] = {"scaling_cur_freq"};
constexpr std::string_view kLimitFiles[] = {"scaling_min_freq", "scaling_max_freq"};

// One small file per cpu, opened each time on large hosts; some drivers read it from the cpu itself.
constexpr auto kCostPerCpu = std::chrono::microseconds(12);

class FrequencyProbe final : public Probe {
 public:
  FrequencyProbe(const ProbeContext& context, std::span<const FamilyTable> tables,
                 std::span<const std::string_view> names) {
    for (const int cpu : context.host.cpus_online) {
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/";
      for (std::size_t i = 0; i < names.size(); ++i) {
        KernelFile file = context.fs.open_each_time(folder + std::string(names[i]));
        if (!file.read().empty()) files_.push_back({i, cpu, std::move(file)});
      }
    }
    if (files_.empty()) throw Unavailable("this kernel does not report cpu clocks (no cpufreq)");
    clocks_.emplace(context, tables[0], tables[1]);
    for (std::size_t i = 0; i < names.size(); ++i) clocks_->add_metric(tables[0].metrics[i].name);
  }

  void sample() noexcept override {
    clocks_->begin();
    for (File& each : files_) {
      std::int64_t kilohertz = 0;
      if (parse_number_file(each.file.read(), kilohertz)) {
        clocks_->set(each.metric, each.cpu, scaled(kilohertz, 1000));
      }
    }
    clocks_->commit();
  }

 private:
  struct File {
    std::size_t metric;
    int cpu;
    KernelFile file;
  };
  std::vector<File> files_;
  std::optional<PerCpu> clocks_;
};

std::unique_ptr<Probe> open_now(const ProbeContext& context) {
  return std::make_unique<FrequencyProbe>(context, kNowFamilies, kNowFiles);
}

std::unique_ptr<Probe> open_limits(const ProbeContext& context) {
  return std::make_unique<FrequencyProbe>(context, kLimitFamilies, kLimitFiles);
}

std::chrono::nanoseconds now_period(const Host& host) {
  return std::max<std::chrono::nanoseconds>(1s, paced(host.cpus_online.size(), kCostPerCpu, kShareOfACore / 3));
}

std::chrono::nanoseconds limits_period(const Host& host) {
  return std::max<std::chrono::nanoseconds>(10s, paced(host.cpus_online.size(), 2 * kCostPerCpu, kShareOfACore / 3));
}

constexpr std::string_view kRemedy =
    "virtual machines have none; on hardware, admin: load the cpufreq driver (intel_pstate, amd-pstate, acpi-cpufreq)";

const RegisteredProbe now{{.name = "cpu_frequency",
                           .help = "Current clock of each cpu",
                           .period = 1s,
                           .families = kNowFamilies,
                           .open = open_now,
                           .period_on = now_period,
                           .remedy = kRemedy,
                           .absence = Absence::hardware}};
const RegisteredProbe limits{
    {.name = "cpu_frequency_limits",
     .help = "Lowest and highest allowed clock of each cpu; power or thermal capping lowers them",
     .period = 10s,
     .families = kLimitFamilies,
     .open = open_limits,
     .period_on = limits_period,
     .remedy = kRemedy,
     .absence = Absence::hardware}};

}  // namespace
}  // namespace reveal::probe::cpu_frequency
