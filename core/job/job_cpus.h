// On which cpus the kernel lets processes run.
#pragma once

#include "core/job/cpu_set.h"
#include "core/job/job.h"

namespace reveal {

[[nodiscard]] CpuSet cpus_of_process(KernelTree& fs, int pid);

/// Whose cpus: Slurm's daemons of the steps are in the job's cpuset, and bound to no part of it.
enum class Whose : std::uint8_t { everybody, tasks, launchers };
[[nodiscard]] CpuSet cpus_of_job(KernelTree& fs, const Job& job, Whose whose);

}  // namespace reveal
