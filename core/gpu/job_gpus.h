// Finds the job's GPUs. Only these are opened and read.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

struct GpuIdentity {
  int index = 0;   // NVML's, in the order of PCI addresses
  int minor = -1;  // number in /dev/nvidiaN; -1: not known
  std::string uuid;
  std::string address;  // on the PCI bus
};

struct JobGpus {
  std::set<int> indices;
  std::string allocated_by;  // "Slurm", "CUDA_VISIBLE_DEVICES", "devices cgroup"; "": not known
};
/// If the allocation is not known: all of them, but none with Slurm, because its jobs share nodes.
[[nodiscard]] JobGpus gpus_of_job(KernelTree& fs, const Job* job, std::span<const GpuIdentity> gpus);

/// The GPUs that the NVIDIA driver shows in /proc, without those that sleep: a question would wake them. None of them
/// is opened for that. Empty where the driver shows none.
struct GpusInProc {
  std::vector<GpuIdentity> awake;
  std::size_t asleep = 0;
};
[[nodiscard]] GpusInProc gpus_in_proc(KernelTree& fs);

}  // namespace reveal
