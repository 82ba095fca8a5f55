// Cooling devices of the cpus: while one is active, the kernel lowers the highest clock of its cpus because of heat.
// https://docs.kernel.org/driver-api/thermal/sysfs-api.html
#include <algorithm>
#include <array>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/pace.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::cooling {
namespace {

constexpr std::string_view kFolder = "/sys/class/thermal";

/// Beginnings of the types that slow cpus down: of ACPI, of cpufreq under two names, of the idle injection. Others are
/// fans, displays and network cards.
constexpr std::array<std::string_view, 5> kTypes = {"Processor", "cpufreq", "thermal-cpufreq", "thermal-idle",
                                                    "intel_powerclamp"};

constexpr MetricHelp kStates[] = {
    {"cooling.active", "Cooling devices that slow cpus down because of heat."},
    {"cooling.strongest", "Highest state of these devices; 0: no cpu is slowed down."},
};
constexpr FamilyTable kFamilies[] = {{"cpu/cooling", Kind::gauge, Unit::count, Scope::node, Subsystem::cpu,
                                      "Cooling devices of the cpus", "/sys/class/thermal/cooling_device*/cur_state",
                                      kStates}};
constexpr auto kCostPerDevice = std::chrono::microseconds(12);

class CoolingProbe final : public Probe {
 public:
  explicit CoolingProbe(const ProbeContext& context) {
    for (const std::string& device : context.fs.list(kFolder)) {
      const std::string folder = std::string(kFolder) + '/' + device;
      const std::string type = context.fs.word(folder + "/type");
      const bool of_cpus = std::any_of(kTypes.begin(), kTypes.end(),
                                       [&type](std::string_view begin) { return type.starts_with(begin); });
      if (device.starts_with("cooling_device") && of_cpus) {
        files_.push_back(context.fs.open_each_time(folder + "/cur_state"));
      }
    }
    if (files_.empty()) throw Unavailable("this kernel has no cooling devices of cpus");
    family_ = &context.family(kFamilies[0]);
    for (const MetricHelp& metric : kStates) family_->add(metric.name, "");
  }

  void sample() noexcept override {
    std::int64_t active = kMissing;
    std::int64_t strongest = kMissing;
    for (KernelFile& file : files_) {
      std::int64_t state = 0;
      if (!parse_number_file(file.read(), state)) continue;  // intel_powerclamp is at -1 while it is off
      active = std::max<std::int64_t>(active, 0) + (state > 0 ? 1 : 0);
      strongest = std::max(strongest, state);
    }
    family_->begin();
    family_->set(0, active);
    family_->set(1, strongest);
    family_->commit();
  }

 private:
  std::vector<KernelFile> files_;
  Family* family_ = nullptr;
};

std::unique_ptr<Probe> open_cooling(const ProbeContext& context) {
  return std::make_unique<CoolingProbe>(context);
}

std::chrono::nanoseconds cooling_period(const Host& host) {
  return std::max<std::chrono::nanoseconds>(5s, paced(host.cpus_online.size(), kCostPerDevice, kShareOfACore / 3));
}

const RegisteredProbe entry{
    {.name = "cooling",
     .help = "Whether the kernel slows cpus down because of heat",
     .period = 5s,
     .families = kFamilies,
     .open = open_cooling,
     .period_on = cooling_period,
     .remedy = "virtual machines have none; elsewhere, the firmware may slow cpus down by itself"}};

}  // namespace
}  // namespace reveal::probe::cooling
