// The cpus on which the kernel lets processes run.
#pragma once

#include "core/job/cpu_set.h"
#include "core/job/job.h"

namespace reveal {

[[nodiscard]] CpuSet cpus_of_process(KernelTree& fs, int pid);

/// Selects the processes: the daemons of Slurm steps (launchers) are bound to no part of the job's cpuset.
enum class CpusOf : std::uint8_t { all, tasks, launchers };
[[nodiscard]] CpuSet cpus_of_job(KernelTree& fs, const Job& job, CpusOf processes);

}  // namespace reveal
