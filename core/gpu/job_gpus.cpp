#include "core/gpu/job_gpus.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/job/cgroup.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES";
constexpr std::array<std::string_view, 2> kOfSlurm = {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};

std::set<int> with_minors(std::span<const GpuIdentity> gpus, std::span<const int> minors) {
  std::set<int> indices;
  for (const GpuIdentity& gpu : gpus) {
    if (std::find(minors.begin(), minors.end(), gpu.minor) != minors.end()) indices.insert(gpu.index);
  }
  return indices;
}

/// Version 1 lists what may be opened: "c 195:0 rwm". Version 2 keeps it in a program that nobody can read.
std::optional<std::vector<int>> minors_of_cgroup(KernelTree& fs, const Job& job) {
  constexpr std::string_view kGpu = "c 195:";
  for (const Cgroup& group : cgroups_of(fs, job)) {
    if (!group.has("devices") || group.folder.empty()) continue;
    const auto text = fs.text(group.folder + "/devices.list");
    if (!text) return std::nullopt;
    std::vector<int> minors;
    std::string_view rest = *text;
    std::string_view line;
    while (next_line(rest, line)) {
      if (line.starts_with("a ")) return std::nullopt;  // everything
      if (!line.starts_with(kGpu)) continue;
      line.remove_prefix(kGpu.size());
      if (const auto minor = parse_int(line.substr(0, line.find(' ')))) minors.push_back(static_cast<int>(*minor));
    }
    return minors;
  }
  return std::nullopt;
}

/// "NAME=value" lines of the variables above, as the job's first process has them that shows its environment.
std::string environment_of(KernelTree& fs, const Job& job) {
  return fs.fact("@gpu/environment", [&] {
    for (const bool launchers : {false, true}) {
      for (const auto& process : job.processes()) {
        if (process->launcher != launchers) continue;
        const std::string all = fs.unrecorded_text("/proc/" + std::to_string(process->pid) + "/environ");
        if (all.empty()) continue;
        std::string text = "seen\n";
        for (const auto& [name, value] : allowed_environment(all)) {
          const bool wanted = name == kVisible || std::find(kOfSlurm.begin(), kOfSlurm.end(), name) != kOfSlurm.end();
          if (wanted) text.append(name).append(1, '=').append(value).append(1, '\n');
        }
        return text;
      }
    }
    return std::string();
  });
}

std::optional<std::string> variable(std::string_view environment, std::string_view name) {
  std::string_view line;
  while (next_line(environment, line)) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with('=')) {
      return std::string(line.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

/// As CUDA reads it: up to the first word that names no GPU. Nothing where it names parts of GPUs (MIG).
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
std::optional<std::set<int>> visible(std::string_view list, std::span<const GpuIdentity> gpus) {
  std::set<int> indices;
  for (const std::string& word : split_names(list)) {
    if (word.starts_with("MIG-")) return std::nullopt;
    const auto number = parse_int(word);
    const auto named = std::find_if(gpus.begin(), gpus.end(), [&](const GpuIdentity& gpu) {
      return number ? gpu.index == *number : word.starts_with("GPU-") && gpu.uuid.starts_with(word);
    });
    if (named == gpus.end()) break;
    indices.insert(named->index);
  }
  return indices;
}

}  // namespace

JobGpus gpus_of_job(KernelTree& fs, const Job* job, std::span<const GpuIdentity> gpus) {
  JobGpus all;
  for (const GpuIdentity& gpu : gpus) all.indices.insert(gpu.index);
  if (job == nullptr) return all;
  const std::string environment = environment_of(fs, *job);
  for (const std::string_view name : kOfSlurm) {
    const auto list = variable(environment, name);
    if (!list || list->empty()) continue;
    const JobGpus found{with_minors(gpus, parse_cpu_list(*list)), "Slurm"};
    if (!found.indices.empty()) return found;
  }
  if (const auto minors = minors_of_cgroup(fs, *job)) {
    const JobGpus found{with_minors(gpus, *minors), "devices cgroup"};
    if (!found.indices.empty()) return found;
  }
  if (const auto list = variable(environment, kVisible)) {
    if (const auto indices = visible(*list, gpus)) return {*indices, std::string(kVisible)};
  }
  return all;
}

GpuAddresses gpu_addresses(KernelTree& fs) {
  GpuAddresses found;
  for (const std::string& address : fs.list("/proc/driver/nvidia/gpus")) {
    if (fs.word("/sys/bus/pci/devices/" + address + "/power/runtime_status") == "suspended") {
      ++found.asleep;
    } else {
      found.awake.push_back(address);
    }
  }
  return found;
}

}  // namespace reveal
