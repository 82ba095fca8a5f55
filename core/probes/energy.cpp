// Energy of packages, cores and memory by the powercap interface (RAPL).
// https://docs.kernel.org/power/powercap/powercap.html
#include <algorithm>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::energy {
namespace {

constexpr std::string_view kFolder = "/sys/class/powercap";

constexpr MetricHelp kMetrics[] = {
    {"energy.<zone>", "Energy used: energy.package, energy.dram, energy.core, energy.psys; its rate is the power."}};
constexpr FamilyTable kFamilies[] = {{"cpu/energy", Kind::counter, Unit::microjoules, Scope::device, Subsystem::cpu,
                                      "Energy of packages, cores and memory", "/sys/class/powercap/*rapl*/energy_uj",
                                      kMetrics}};

class EnergyProbe final : public Probe {
 public:
  explicit EnergyProbe(const ProbeContext& context) {
    bool refused = false;
    for (const std::string& name : context.fs.list(kFolder)) {
      const std::string folder = std::string(kFolder) + '/' + name;
      if (name.find(':') == std::string::npos) continue;  // the type, not a zone
      Zone zone;
      zone.file = context.fs.open(folder + "/energy_uj", 64);
      if (zone.file.read().empty()) {
        refused = refused || zone.file.error() == EACCES;
        continue;
      }
      zone.label = context.fs.word(folder + "/name");
      zone.place = name;
      zone.range = parse_int(context.fs.word(folder + "/max_energy_range_uj")).value_or(0);
      zones_.push_back(std::move(zone));
    }
    if (zones_.empty()) {
      if (refused)
        throw Absent("only root may read the energy counters since Linux 5.10 (CVE-2020-8694)", Absence::obtainable);
      throw Unavailable("this host shows no energy counters (no RAPL, or a virtual machine)");
    }
    family_ = &context.family(kFamilies[0]);
    for (const Zone& zone : zones_) family_->add(metric_of(zone.label), instance_of(zone));
  }

  void sample() noexcept override {
    family_->begin();
    for (std::size_t i = 0; i < zones_.size(); ++i) {
      std::int64_t energy = 0;
      if (parse_number_file(zones_[i].file.read(), energy)) {
        family_->set(static_cast<std::int32_t>(i), unwrapped(zones_[i], energy));
      }
    }
    family_->commit();
  }

 private:
  struct Zone {
    std::string place;  // "intel-rapl:0:1"
    std::string label;  // "package-0", "dram"
    KernelFile file;
    std::int64_t range = 0;
    std::int64_t last = 0;
    std::int64_t wrapped = 0;
  };

  // "package-0" is energy.package of instance 0, "dram" below it energy.dram of 0.
  static std::string metric_of(std::string_view label) {
    return "energy." + std::string(label.substr(0, label.find('-')));
  }
  static std::string instance_of(const Zone& zone) {
    const bool mmio = zone.place.find("mmio") != std::string::npos;  // the same package, counted elsewhere
    return (mmio ? "mmio:" : "") + zone.place.substr(zone.place.find(':') + 1);
  }

  // energy_uj wraps at max_energy_range_uj (262 kJ: a quarter of an hour at 300 W).
  static std::int64_t unwrapped(Zone& zone, std::int64_t energy) noexcept {
    if (energy < zone.last && zone.range > 0) zone.wrapped = wrapping_sum(zone.wrapped, zone.range);
    zone.last = energy;
    return wrapping_sum(zone.wrapped, energy);
  }

  std::vector<Zone> zones_;
  Family* family_ = nullptr;
};

std::unique_ptr<Probe> open_energy(const ProbeContext& context) {
  return std::make_unique<EnergyProbe>(context);
}

const RegisteredProbe entry{{.name = "energy",
                             .help = "Energy used by packages, cores and memory",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_energy,
                             .remedy = "hardware only; admin: chmod a+r /sys/class/powercap/*/energy_uj, if its side "
                                       "channel (CVE-2020-8694) is acceptable here",
                             .absence = Absence::hardware,
                             .privilege = "root, since Linux 5.10"}};

}  // namespace
}  // namespace reveal::probe::energy
