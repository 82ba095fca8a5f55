// A probe of the GPUs that the files of a kernel driver show: it finds the job's, has a child process read their files,
// because many of them are a request to the GPU's firmware, which may wait, and fills the rows.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/gpu/job_gpus.h"
#include "core/sampler/asked_child.h"
#include "core/sampler/probe.h"

namespace reveal {

/// GPUs of one maker.
struct GpuDriver {
  std::string_view vendor;  // "AMD"
  AskedChildWords words;
  WorkerProcess::Work read_files;  // gpu_files.h
  std::span<const FamilyTable> families;
  std::string_view first_slow;  // path of the first that is read every ten seconds
  const GpuMaker* maker = nullptr;
  DriverGpus (*find)(KernelTree&) = nullptr;
  std::size_t (*count_before)(KernelTree&) = nullptr;  // GPUs of other makers have the first numbers
  bool needs_processes = false;                        // whether a request names the job's processes
};

/// Throws Unavailable where no child process can be started.
[[nodiscard]] std::unique_ptr<Probe> probe_of_driver(const ProbeContext& context, const GpuDriver& driver);

}  // namespace reveal
