// Finds the job's GPUs. Only these are opened and read.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

struct GpuIdentity {
  int index = 0;   // as its maker's libraries count
  int minor = -1;  // number in /dev/nvidiaN or /dev/dri/renderDN; -1: not known
  std::string uuid;
  std::string address;  // on the PCI bus
};

struct JobGpus {
  std::set<int> indices;
  std::string allocated_by;  // "Slurm", "CUDA_VISIBLE_DEVICES", "devices cgroup" ...; "": not known
};

/// The names by which the GPUs of one maker are given to a job.
struct GpuMaker {
  std::string_view device;                    // in the list of a devices cgroup: "c 195:"
  std::span<const std::string_view> visible;  // variables; the first that is set counts
  int first_minor = 0;                        // smaller numbers of Slurm's count the device files
  std::string_view container = {};            // variable in which an engine names the GPUs of a container
};
extern const GpuMaker kNvidiaGpus;
extern const GpuMaker kAmdGpus;
extern const GpuMaker kIntelGpus;

/// If the allocation is not known: the GPUs with `opened` device files; if none is open, all of them, but none with
/// Slurm, because its jobs share nodes. `divided`: variables count parts of GPUs.
[[nodiscard]] JobGpus gpus_of_job(KernelTree& fs, const Job* job, std::span<const GpuIdentity> gpus,
                                  const GpuMaker& maker = kNvidiaGpus, const std::set<int>& opened = {},
                                  bool divided = false);

/// The GPUs that the NVIDIA driver shows in /proc, without those that sleep: a question would wake them. None of them
/// is opened for that. Empty where the driver shows none.
struct GpusInProc {
  std::vector<GpuIdentity> awake;
  std::size_t asleep = 0;
};
[[nodiscard]] GpusInProc gpus_in_proc(KernelTree& fs);

/// Why the device file of a GPU of NVIDIA's cannot be opened here; "" where it can. The devices cgroup has its say in
/// access(2), too, which wakes no GPU.
[[nodiscard]] std::string why_out_of_reach(KernelTree& fs, int minor);

/// The GPUs in the kernel's list of compute devices (KFD), in its order.
struct ComputeDevice {
  int minor = -1;       // 128 of /dev/dri/renderD128
  std::int64_t id = 0;  // in names of the files of its processes
};
[[nodiscard]] std::vector<ComputeDevice> compute_devices(KernelTree& fs);

/// The GPUs of the kernel's drivers for one maker. None is opened or woken: the identity of one that sleeps is not
/// read.
struct DriverGpus {
  std::vector<GpuIdentity> gpus;
  bool divided = false;  // at least one of them into parts that programs use as GPUs
};
/// GPUs of the driver amdgpu, in the order in which AMD's libraries count them: that of the kernel's list of compute
/// devices (KFD), or of the device files where there is none.
[[nodiscard]] DriverGpus amd_gpus(KernelTree& fs);
/// Cards of the drivers i915 and xe, in the order of their device files. Level Zero counts each tile of
/// a card as a GPU.
[[nodiscard]] DriverGpus intel_gpus(KernelTree& fs);
/// "/sys/bus/pci/devices/0000:03:00.0/drm/card1"; "" where there is none.
[[nodiscard]] std::string drm_card(KernelTree& fs, const std::string& pci_folder);

}  // namespace reveal
