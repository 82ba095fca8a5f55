// The clock each cpu really runs at, where the kernel's cpufreq says so. Virtual machines have none.
#include "core/root/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr MetricHelp kMetrics[] = {{"cpu.frequency", "Current clock as the cpufreq driver reports it."}};
constexpr FamilyTable kFamilies[] = {{"cpu/frequency", Kind::gauge, Unit::hertz, Scope::cpu, Subsystem::cpu,
                                      "Current cpu clock", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq",
                                      kMetrics}};

class FrequencyProbe final : public Probe {
 public:
  explicit FrequencyProbe(const ProbeContext& context) {
    std::vector<int> cpus;
    for (const int cpu : context.host.cpus_online) {
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq";
      KernelFile file = context.fs.open(folder + "/scaling_cur_freq", 64);
      if (file.read().empty()) continue;
      files_.push_back(std::move(file));
      cpus.push_back(cpu);
    }
    if (files_.empty()) throw Unavailable("this kernel does not report cpu clocks (no cpufreq)");
    family_ = &context.family(kFamilies[0]);
    for (const int cpu : cpus) family_->add("cpu.frequency", "cpu" + std::to_string(cpu), context.role_of_cpu(cpu));
  }

  void sample() noexcept override {
    family_->begin();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      std::int64_t kilohertz = 0;
      std::string_view text = files_[i].read();
      std::string_view line;
      if (next_line(text, line) && parse_counter(line, kilohertz)) {
        family_->set(static_cast<std::int32_t>(i), kilohertz * 1000);
      }
    }
    family_->commit();
  }

 private:
  Family* family_ = nullptr;
  std::vector<KernelFile> files_;
};

std::unique_ptr<Probe> open_frequency(const ProbeContext& context) {
  return std::make_unique<FrequencyProbe>(context);
}

const RegisteredProbe entry{{.name = "cpu_frequency",
                             .help = "Current clock of each cpu",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_frequency,
                             .remedy = "virtual machines have none; on hardware, admin: load the cpufreq driver "
                                       "(intel_pstate, amd-pstate, acpi-cpufreq)"}};

}  // namespace
}  // namespace reveal
