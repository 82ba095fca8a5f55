#include "core/sampler/probe.h"

#include <algorithm>

namespace reveal {
namespace {

std::vector<ProbeSpec>& registry() {
  static std::vector<ProbeSpec> specs;
  return specs;
}

}  // namespace

const std::vector<ProbeSpec>& probes() {
  return registry();
}

RegisteredProbe::RegisteredProbe(const ProbeSpec& spec) {
  std::vector<ProbeSpec>& specs = registry();
  const auto place = std::lower_bound(specs.begin(), specs.end(), spec.name,
                                      [](const ProbeSpec& other, std::string_view name) { return other.name < name; });
  specs.insert(place, spec);
}

std::string_view name_of(Absence absence) noexcept {
  constexpr std::string_view kNames[] = {"not_here", "needs_job", "off", "obtainable", "hardware"};
  return kNames[static_cast<std::size_t>(absence)];
}

void need_job(const ProbeContext& context) {
  if (context.job == nullptr) throw Absent("no job was named (--job)", Absence::needs_job);
}

std::string_view ProbeContext::role_of_cpu(int cpu) const {
  const bool of_job = job_cpus != nullptr && std::binary_search(job_cpus->begin(), job_cpus->end(), cpu);
  return of_job ? "job" : "node";
}

}  // namespace reveal
