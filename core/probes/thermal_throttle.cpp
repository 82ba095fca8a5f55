// How often and how long heat made the cpus slow down, as the kernel counts it on Intel cpus.
// https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-devices-system-cpu
#include <array>
#include <optional>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/pace.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::thermal_throttle {
namespace {

constexpr std::string_view kCpus = "/sys/devices/system/cpu/cpu";
constexpr std::int64_t kMillisecond = 1'000'000;

constexpr MetricHelp kCoreCounts[] = {
    {"throttle.core_count", "Times a core was too hot, counted by its first hardware thread."},
    {"throttle.core_count_<summary>", "On more than 64 cores: spread and max over them."},
};
constexpr MetricHelp kCoreTimes[] = {
    {"throttle.core_time", "Time a core was slowed down because of its heat (Linux 5.10)."},
    {"throttle.core_time_<summary>", "On more than 64 cores: spread and max over them."},
};
constexpr MetricHelp kPlaces[] = {{"throttle.core_count_max_cpu", "On more than 64 cores: the hottest core."}};
constexpr MetricHelp kTimePlaces[] = {
    {"throttle.core_time_max_cpu", "On more than 64 cores: the core slowed down most."}};
constexpr MetricHelp kPackageCounts[] = {{"throttle.package_count", "Times a whole package was too hot."}};
constexpr MetricHelp kPackageTimes[] = {
    {"throttle.package_time", "Time a whole package was slowed down because of its heat (Linux 5.10)."}};

constexpr std::string_view kSource = "/sys/devices/system/cpu/cpu*/thermal_throttle";
constexpr FamilyTable kFamilies[] = {
    {"cpu/throttle_counts", Kind::event, Unit::count, Scope::cpu, Subsystem::cpu, "Cores that were too hot", kSource,
     kCoreCounts},
    {"cpu/throttle_count_places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu, "Hottest core", kSource,
     kPlaces},
    {"cpu/throttle_times", Kind::counter, Unit::nanoseconds, Scope::cpu, Subsystem::cpu,
     "Time cores were slowed down for their heat", kSource, kCoreTimes},
    {"cpu/throttle_time_places", Kind::state, Unit::count, Scope::cpu, Subsystem::cpu, "Core slowed down most", kSource,
     kTimePlaces},
    {"cpu/package_throttle_counts", Kind::event, Unit::count, Scope::device, Subsystem::cpu,
     "Packages that were too hot", kSource, kPackageCounts},
    {"cpu/package_throttle_times", Kind::counter, Unit::nanoseconds, Scope::device, Subsystem::cpu,
     "Time packages were slowed down for their heat", kSource, kPackageTimes},
};
constexpr auto kCostPerCpu = std::chrono::microseconds(12);

class ThrottleProbe final : public Probe {
 public:
  explicit ThrottleProbe(const ProbeContext& context) {
    for (const int cpu : context.host.cpus_online) find_core(context, cpu);
    if (cores_.empty()) {
      throw Unavailable("this kernel does not count thermal throttling (no Intel cpu, or a virtual machine)");
    }
    const PerCpu::Options options{.members_expected = cores_.size()};
    counts_.emplace(context, kFamilies[0], kFamilies[1], options);
    times_.emplace(context, kFamilies[2], kFamilies[3], options);
    counts_->add_metric(kCoreCounts[0].name);
    times_->add_metric(kCoreTimes[0].name);
    package_counts_ = &context.family(kFamilies[4]);
    package_times_ = &context.family(kFamilies[5]);
    for (const Place& package : packages_) {
      const std::string instance = "package" + std::to_string(package.number);
      package_counts_->add(kPackageCounts[0].name, instance);
      package_times_->add(kPackageTimes[0].name, instance);
    }
  }

  void sample() noexcept override {
    counts_->begin();
    times_->begin();
    std::int64_t value = 0;
    for (Place& core : cores_) {
      if (read(core.count, value)) counts_->set(0, core.number, value);
      if (read(core.time, value)) times_->set(0, core.number, scaled(value, kMillisecond));
    }
    counts_->commit();
    times_->commit();
    package_counts_->begin();
    package_times_->begin();
    for (std::size_t i = 0; i < packages_.size(); ++i) {
      if (read(packages_[i].count, value)) package_counts_->set(static_cast<std::int32_t>(i), value);
      if (read(packages_[i].time, value))
        package_times_->set(static_cast<std::int32_t>(i), scaled(value, kMillisecond));
    }
    package_counts_->commit();
    package_times_->commit();
  }

 private:
  struct Place {
    int number = 0;  // number of the core's first cpu, or of the package
    KernelFile count, time;
  };

  static bool read(KernelFile& file, std::int64_t& value) noexcept { return parse_number_file(file.read(), value); }

  static Place open_place(KernelTree& fs, const std::string& folder, std::string_view what, int number) {
    const std::string prefix = folder + "/thermal_throttle/" + std::string(what);
    return {number, fs.open_each_time(prefix + "_throttle_count"),
            fs.open_each_time(prefix + "_throttle_total_time_ms")};
  }

  // Hardware threads repeat the numbers of their core, and cores those of their package.
  void find_core(const ProbeContext& context, int cpu) {
    const std::string folder = std::string(kCpus) + std::to_string(cpu);
    Place core = open_place(context.fs, folder, "core", cpu);
    if (core.count.read().empty()) return;
    const std::vector<int> siblings = parse_cpu_list(context.fs.word(folder + "/topology/thread_siblings_list"));
    if (siblings.empty() || siblings.front() == cpu) cores_.push_back(std::move(core));
    const auto package = parse_int(context.fs.word(folder + "/topology/physical_package_id"));
    if (!package) return;
    const auto number = static_cast<int>(*package);
    for (const Place& known : packages_) {
      if (known.number == number) return;
    }
    packages_.push_back(open_place(context.fs, folder, "package", number));
  }

  std::vector<Place> cores_, packages_;
  std::optional<PerCpu> counts_, times_;
  Family* package_counts_ = nullptr;
  Family* package_times_ = nullptr;
};

std::unique_ptr<Probe> open_throttle(const ProbeContext& context) {
  return std::make_unique<ThrottleProbe>(context);
}

std::chrono::nanoseconds throttle_period(const Host& host) {
  return std::max<std::chrono::nanoseconds>(5s, paced(host.cpus_online.size(), kCostPerCpu, kShareOfACore / 3));
}

const RegisteredProbe entry{{.name = "thermal_throttle",
                             .help = "How often and how long heat slowed cores and packages down",
                             .period = 5s,
                             .families = kFamilies,
                             .open = open_throttle,
                             .period_on = throttle_period,
                             .remedy = "Intel hardware only; elsewhere, cpu clocks and temperatures show throttling"}};

}  // namespace
}  // namespace reveal::probe::thermal_throttle
