#include "core/gpu/job_gpus.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/job/cgroup.h"
#include "core/kernel_text/kernel_words.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES";
constexpr std::array<std::string_view, 2> kOfSlurm = {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};
constexpr std::string_view kSlurm = "slurm";
constexpr std::size_t kMostEnvironments = 256;  // that are looked at

std::set<int> with_minors(std::span<const GpuIdentity> gpus, std::span<const int> minors) {
  std::set<int> indices;
  for (const GpuIdentity& gpu : gpus) {
    if (std::find(minors.begin(), minors.end(), gpu.minor) != minors.end()) indices.insert(gpu.index);
  }
  return indices;
}

/// Version 1 lists the devices that may be opened: "c 195:0 rwm". Version 2 keeps them in a BPF program that cannot be
/// read.
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

/// "NAME=value" lines of the variables above, as the job's processes have them: each step and each task may have GPUs
/// of its own. "slurm" where the job is one of Slurm's.
std::string environment_of(KernelTree& fs, const Job& job) {
  return fs.fact("@gpu/environment", [&] {
    std::set<std::string> lines;
    if (job.of_slurm()) lines.emplace(kSlurm);
    bool seen = false;
    std::size_t looks = 0;
    for (const bool launchers : {false, true}) {
      for (const auto& process : job.processes()) {
        if (process->launcher != launchers || (launchers && seen) || looks == kMostEnvironments) continue;
        ++looks;
        const std::string all = fs.unrecorded_text("/proc/" + std::to_string(process->pid) + "/environ");
        seen = seen || !all.empty();
        for (const auto& [name, value] : allowed_environment(all)) {
          const bool wanted = name == kVisible || std::find(kOfSlurm.begin(), kOfSlurm.end(), name) != kOfSlurm.end();
          if (wanted) lines.insert(name + '=' + value);
          if (name == "SLURM_JOB_ID") lines.emplace(kSlurm);
        }
      }
    }
    std::string text;
    for (const std::string& line : lines) text.append(line).append(1, '\n');
    return text;
  });
}

bool has_line(std::string_view environment, std::string_view wanted) {
  std::string_view line;
  while (next_line(environment, line)) {
    if (line == wanted) return true;
  }
  return false;
}

/// The values of a variable in the job's processes.
std::vector<std::string> values_of(std::string_view environment, std::string_view name) {
  std::vector<std::string> values;
  std::string_view line;
  while (next_line(environment, line)) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with('=')) {
      values.emplace_back(line.substr(name.size() + 1));
    }
  }
  return values;
}

/// The list as CUDA reads it: up to the first word that names no GPU. No value if it names parts of GPUs (MIG).
/// `may_count`: numbers count from the node's first GPU; in a job of Slurm's they may count from the job's own.
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
std::optional<std::set<int>> visible(std::string_view list, std::span<const GpuIdentity> gpus, bool may_count) {
  std::set<int> indices;
  for (const std::string& word : split_names(list)) {
    if (word.starts_with("MIG-")) return std::nullopt;
    const auto number = parse_int(word);
    if (number && !may_count) return std::nullopt;
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
  const bool slurm = has_line(environment, kSlurm);
  for (const std::string_view name : kOfSlurm) {
    JobGpus found{{}, "Slurm"};
    for (const std::string& list : values_of(environment, name)) {
      found.indices.merge(with_minors(gpus, parse_cpu_list(list)));
    }
    if (!found.indices.empty()) return found;
  }
  if (const auto minors = minors_of_cgroup(fs, *job)) {
    const JobGpus found{with_minors(gpus, *minors), "devices cgroup"};
    if (!found.indices.empty()) return found;
  }
  JobGpus found{{}, std::string(kVisible)};
  bool named = false;
  for (const std::string& list : values_of(environment, kVisible)) {
    auto indices = visible(list, gpus, !slurm);
    if (!indices) return slurm ? JobGpus{} : all;
    found.indices.merge(*indices);
    named = true;
  }
  if (named) return found;
  return slurm ? JobGpus{} : all;
}

// https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/procinterface.html
GpusInProc gpus_in_proc(KernelTree& fs) {
  constexpr std::string_view kGpus = "/proc/driver/nvidia/gpus";
  GpusInProc found;
  int index = 0;
  for (const std::string& address : fs.list(kGpus)) {
    if (fs.word("/sys/bus/pci/devices/" + address + "/power/runtime_status") == "suspended") {
      ++found.asleep;
      ++index;
      continue;
    }
    GpuIdentity gpu{.index = index, .minor = -1, .uuid = "", .address = address};
    bool excluded = false;  // NVML does not count it
    const std::string text = fs.text(std::string(kGpus) + '/' + address + "/information").value_or("");
    std::string_view rest = text;
    std::string_view line;
    while (next_line(rest, line)) {
      const std::size_t colon = std::min(line.find(':'), line.size());
      const std::string_view key = line.substr(0, colon);
      std::string_view words = line.substr(std::min(colon + 1, line.size()));
      const std::string_view value = cut_word(words);
      if (key == "Device Minor") gpu.minor = static_cast<int>(parse_int(value).value_or(-1));
      if (key == "GPU UUID") gpu.uuid = value;
      if (key == "GPU Excluded") excluded = value == "Yes";
    }
    if (excluded) continue;
    found.awake.push_back(std::move(gpu));
    ++index;
  }
  return found;
}

}  // namespace reveal
