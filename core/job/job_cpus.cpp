#include "core/job/job_cpus.h"

#include <string>

namespace reveal {

CpuSet cpus_of_process(KernelTree& fs, int pid) {
  const std::string status = fs.text("/proc/" + std::to_string(pid) + "/status").value_or("");
  return CpuSet::of_list(field_of(status, "Cpus_allowed_list"));
}

CpuSet cpus_of_job(KernelTree& fs, const Job& job, CpusOf processes) {
  CpuSet allowed;
  for (const auto& process : job.processes()) {
    if (processes != CpusOf::all && process->launcher != (processes == CpusOf::launchers)) continue;
    allowed.insert(cpus_of_process(fs, process->pid));
  }
  return allowed;
}

}  // namespace reveal
