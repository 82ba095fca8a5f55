// Temperatures of packages and cores from the kernel's own sensor drivers, in whole degrees.
// https://docs.kernel.org/hwmon/coretemp.html
#include <algorithm>
#include <array>
#include <optional>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::temperature {
namespace {

constexpr std::string_view kFolder = "/sys/class/hwmon";

// Drivers that read a register of the cpu. Others read over a slow bus, or from the disk itself, and would delay
// everything.
constexpr std::array<std::string_view, 6> kDrivers = {"coretemp", "k10temp",     "k8temp",
                                                      "zenpower", "cpu_thermal", "soc_thermal"};

constexpr MetricHelp kPackages[] = {
    {"temperature.package", "Temperature of a package or die; the instance is its sensor."}};
constexpr MetricHelp kCores[] = {
    {"temperature.core", "Temperature of a core; on more than 64 cores their mean."},
    {"temperature.core_<summary>", "On more than 64 cores: spread, min and max over them."},
};
constexpr MetricHelp kPlaces[] = {
    {"temperature.core_<extreme>_core", "On more than 64 cores: the coolest and the hottest core."}};
constexpr FamilyTable kFamilies[] = {
    {"cpu/package_temperature", Kind::gauge, Unit::celsius, Scope::device, Subsystem::cpu, "Temperature of packages",
     "/sys/class/hwmon/hwmon*/temp*_input", kPackages},
    {"cpu/core_temperature", Kind::gauge, Unit::celsius, Scope::device, Subsystem::cpu, "Temperature of cores",
     "/sys/class/hwmon/hwmon*/temp*_input", kCores},
    {"cpu/core_temperature_places", Kind::state, Unit::count, Scope::device, Subsystem::cpu, "Coolest and hottest core",
     "/sys/class/hwmon/hwmon*/temp*_input", kPlaces},
};

std::string as_instance(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

/// The temperature in whole degrees.
std::int64_t degrees_of(std::string_view line) noexcept {
  const bool below_zero = line.starts_with('-');
  std::int64_t thousandths = 0;
  if (!parse_counter(line.substr(below_zero ? 1 : 0), thousandths)) return kMissing;
  const std::int64_t rounded = thousandths / 1000 + (thousandths % 1000 >= 500 ? 1 : 0);
  return below_zero ? -rounded : rounded;
}

class TemperatureProbe final : public Probe {
 public:
  explicit TemperatureProbe(const ProbeContext& context) {
    std::string others;
    for (const std::string& monitor : context.fs.list(kFolder)) {
      const std::string folder = std::string(kFolder) + '/' + monitor;
      const std::string driver = context.fs.word(folder + "/name");
      if (std::find(kDrivers.begin(), kDrivers.end(), driver) != kDrivers.end()) {
        find_sensors(context.fs, folder, driver + std::to_string(chips_++));
      } else {
        others += (others.empty() ? "" : ", ") + driver;
      }
    }
    if (packages_.empty() && cores_.empty()) {
      throw Unavailable(others.empty() ? "this host shows no sensors (no hwmon driver, or a virtual machine)"
                                       : "none of its sensors belongs to the cpu: " + others);
    }
    package_family_ = &context.family(kFamilies[0]);
    for (const Sensor& sensor : packages_) package_family_->add(kPackages[0].name, sensor.name);
    if (cores_.empty()) return;
    core_values_.emplace(context, kFamilies[1], kFamilies[2],
                         PerCpu::Options{.member = "core", .members_expected = cores_.size()});
    core_values_->add_metric(kCores[0].name);
  }

  void sample() noexcept override {
    package_family_->begin();
    for (std::size_t i = 0; i < packages_.size(); ++i) {
      package_family_->set(static_cast<std::int32_t>(i), degrees(packages_[i]));
    }
    package_family_->commit();
    if (!core_values_) return;
    core_values_->begin();
    for (std::size_t i = 0; i < cores_.size(); ++i) {
      const std::int64_t value = degrees(cores_[i]);
      if (value != kMissing) core_values_->set(0, static_cast<int>(i), value);
    }
    core_values_->commit();
  }

  /// At which the processor slows down, where the driver reports it: AMD's mostly does not.
  [[nodiscard]] Snapshot facts() const override { return limits_; }

 private:
  struct Sensor {
    std::string name;
    KernelFile file;
  };

  void find_sensors(KernelTree& fs, const std::string& folder, const std::string& chip) {
    for (const std::string& file : fs.list(folder)) {
      if (!file.starts_with("temp") || !file.ends_with("_input")) continue;
      const std::string sensor = file.substr(0, file.size() - 6);
      const std::string label = fs.word(folder + '/' + sensor + "_label");
      Sensor found{chip + '.' + as_instance(label.empty() ? sensor : label), fs.open_each_time(folder + '/' + file)};
      if (degrees(found) == kMissing) continue;
      const std::int64_t limit = degrees_of(fs.word(folder + '/' + sensor + "_crit"));
      const bool of_core = label.starts_with("Core ");
      if (!of_core && limit != kMissing) limits_.emplace_back("temperature_limit." + found.name, std::to_string(limit));
      (of_core ? cores_ : packages_).push_back(std::move(found));
    }
  }

  static std::int64_t degrees(Sensor& sensor) noexcept {
    std::string_view text = sensor.file.read();
    std::string_view line;
    return next_line(text, line) ? degrees_of(line) : kMissing;
  }

  int chips_ = 0;
  std::vector<Sensor> packages_, cores_;
  Snapshot limits_;
  Family* package_family_ = nullptr;
  std::optional<PerCpu> core_values_;
};

std::unique_ptr<Probe> open_temperature(const ProbeContext& context) {
  return std::make_unique<TemperatureProbe>(context);
}

// Each core is read by an interrupt.
std::chrono::nanoseconds temperature_period(const Host& host) {
  return host.cpus_online.size() <= kMostInDetail ? 5s : 30s;
}

const RegisteredProbe entry{{.name = "temperature",
                             .help = "Temperature of packages and cores",
                             .period = 5s,
                             .families = kFamilies,
                             .open = open_temperature,
                             .period_on = temperature_period,
                             .remedy = "virtual machines have none; on hardware, admin: modprobe coretemp or k10temp",
                             .absence = Absence::hardware}};

}  // namespace
}  // namespace reveal::probe::temperature
