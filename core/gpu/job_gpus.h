// Which GPUs of a node are the job's. Only these are asked.
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
  int minor = -1;  // of /dev/nvidiaN; -1: not known
  std::string uuid;
};

struct JobGpus {
  std::set<int> indices;
  std::string allocated_by;  // "Slurm", "CUDA_VISIBLE_DEVICES", "devices cgroup"; "": nobody said, so it is all of them
};
[[nodiscard]] JobGpus gpus_of_job(KernelTree& fs, const Job* job, std::span<const GpuIdentity> gpus);

/// PCI addresses of the GPUs that the NVIDIA driver has, without those that sleep: a question would wake them. Empty
/// where the driver shows none in /proc.
struct GpuAddresses {
  std::vector<std::string> awake;
  std::size_t asleep = 0;
};
[[nodiscard]] GpuAddresses gpu_addresses(KernelTree& fs);

}  // namespace reveal
