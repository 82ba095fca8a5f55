// Pressure stall information: time in which work waited for cpu, io or memory.
// https://docs.kernel.org/accounting/psi.html
#include <array>

#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::pressure {
namespace {

constexpr std::int64_t kMicrosecond = 1000;

constexpr MetricHelp kMetrics[] = {
    {"pressure.cpu_some", "At least one task waited for a cpu."},
    {"pressure.cpu_full", "All tasks waited for a cpu (only inside cgroups)."},
    {"pressure.io_some", "At least one task waited for io."},
    {"pressure.io_full", "All tasks that could run waited for io."},
    {"pressure.memory_some", "At least one task waited for memory to be freed."},
    {"pressure.memory_full", "All tasks that could run waited for memory."},
};
constexpr std::array<std::string_view, 3> kFiles = {"cpu", "io", "memory"};
constexpr FamilyTable kFamilies[] = {{"pressure/node", Kind::counter, Unit::nanoseconds, Scope::node, Subsystem::cpu,
                                      "Time in which work was stalled", "/proc/pressure", kMetrics}};

class PressureProbe final : public Probe {
 public:
  explicit PressureProbe(const ProbeContext& context) {
    bool any = false;
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
      files_[i] = context.fs.open("/proc/pressure/" + std::string(kFiles[i]), 256);
      any = !files_[i].read().empty() || any;
    }
    if (!any) throw Unavailable("the kernel has no pressure stall information (built without it or booted with psi=0)");
    family_ = &context.family(kFamilies[0]);
    for (const MetricHelp& metric : kMetrics) family_->add(metric.name);
  }

  void sample() noexcept override {
    family_->begin();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      std::string_view rest = files_[i].read();
      std::string_view line;
      while (next_line(rest, line)) {
        const std::string_view kind = cut_word(line);
        const std::size_t total = line.rfind("total=");
        std::int64_t microseconds = 0;
        if (total == std::string_view::npos || !parse_counter(line.substr(total + 6), microseconds)) continue;
        if (kind != "some" && kind != "full") continue;
        family_->set(static_cast<std::int32_t>(2 * i + (kind == "full" ? 1 : 0)), scaled(microseconds, kMicrosecond));
      }
    }
    family_->commit();
  }

 private:
  Family* family_ = nullptr;
  std::array<KernelFile, kFiles.size()> files_;
};

std::unique_ptr<Probe> open_pressure(const ProbeContext& context) {
  return std::make_unique<PressureProbe>(context);
}

const RegisteredProbe entry{{.name = "pressure",
                             .help = "Time in which work waited for cpu, io and memory (PSI)",
                             .families = kFamilies,
                             .open = open_pressure,
                             .remedy = "admin: boot with psi=1, on a kernel built with CONFIG_PSI",
                             .absence = Absence::obtainable}};

}  // namespace
}  // namespace reveal::probe::pressure
