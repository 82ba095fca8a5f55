#include "core/gpu/job_gpus.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <vector>

#include "core/job/cgroup.h"
#include "core/job/opened_devices.h"
#include "core/kernel_text/kernel_words.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::array<std::string_view, 1> kOfCuda = {"CUDA_VISIBLE_DEVICES"};
// HIP chooses among the GPUs that ROCr left, and takes the variable of CUDA where its own is not set.
// https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
constexpr std::array<std::string_view, 3> kOfRocm = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                     "CUDA_VISIBLE_DEVICES"};
// https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/PROG.html#affinity-mask
constexpr std::array<std::string_view, 1> kOfLevelZero = {"ZE_AFFINITY_MASK"};
// https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
constexpr std::string_view kOfContainer = "NVIDIA_VISIBLE_DEVICES";
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

/// Slurm names a GPU by the number of its device file, or by its place in the list of device files in gres.conf.
std::vector<int> minors_of_slurm(std::span<const GpuIdentity> gpus, std::vector<int> numbers, int first_minor) {
  std::vector<int> minors;
  for (const GpuIdentity& gpu : gpus) minors.push_back(gpu.minor);
  std::sort(minors.begin(), minors.end());
  for (int& number : numbers) {
    const auto place = static_cast<std::size_t>(number);
    if (number < first_minor) number = place < minors.size() ? minors[place] : -1;
  }
  std::erase(numbers, -1);
  return numbers;
}

/// Version 1 lists the devices that may be opened: "c 195:0 rwm". Version 2 keeps them in a BPF program that cannot be
/// read.
std::optional<std::vector<int>> minors_of_cgroup(KernelTree& fs, const Job& job, std::string_view device) {
  for (const Cgroup& group : cgroups_of(fs, job)) {
    if (!group.has("devices") || group.folder.empty()) continue;
    const auto text = fs.text(group.folder + "/devices.list");
    if (!text) return std::nullopt;
    std::vector<int> minors;
    std::string_view rest = *text;
    std::string_view line;
    while (next_line(rest, line)) {
      if (line.starts_with("a ")) return std::nullopt;  // everything
      if (!line.starts_with(device)) continue;
      line.remove_prefix(device.size());
      if (const auto minor = parse_int(line.substr(0, line.find(' ')))) minors.push_back(static_cast<int>(*minor));
    }
    return minors;
  }
  return std::nullopt;
}

bool is_read(std::string_view variable) {
  for (const std::span<const std::string_view> names :
       {std::span<const std::string_view>(kOfRocm), std::span<const std::string_view>(kOfLevelZero),
        std::span<const std::string_view>(kOfSlurm)}) {
    if (std::find(names.begin(), names.end(), variable) != names.end()) return true;
  }
  return variable == kOfContainer;
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
          if (is_read(name)) lines.insert(name + '=' + value);
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

/// "GPU-1a2b" of "MIG-GPU-1a2b/7/0", as Slurm names a part of that GPU.
std::string_view whole_gpu(std::string_view word) {
  constexpr std::string_view kPart = "MIG-";
  if (word.starts_with("MIG-GPU-")) word = word.substr(kPart.size(), word.find('/') - kPart.size());
  return word;
}

/// The list as CUDA and ROCr read it: up to the first word that names no GPU. No value if it names parts of GPUs
/// without these ("MIG-1a2b", or "0.1" of Level Zero).
/// `may_count`: numbers count from the node's first GPU; in a job of Slurm's they may count from the job's own.
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
std::optional<std::set<int>> visible(std::string_view list, std::span<const GpuIdentity> gpus, bool may_count) {
  std::set<int> indices;
  for (const std::string& each : split_names(list)) {
    const std::string_view word = whole_gpu(each);
    if (word.starts_with("MIG-") || word.find('.') != std::string_view::npos) return std::nullopt;
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

/// The GPUs of a container. Its programs count them, or the parts of GPUs that it has, from the first of these.
struct ContainerGpus {
  bool counts_own = false;
  std::set<int> indices;
};
/// None where the container has all GPUs, or names others than the collector sees: then both are in it, and count
/// alike.
ContainerGpus gpus_of_container(std::string_view environment, std::span<const GpuIdentity> gpus,
                                std::string_view variable) {
  ContainerGpus found;
  for (const std::string& list : values_of(environment, variable)) {
    if (list.empty() || list == "all" || list == "none" || list == "void") continue;
    const auto named = visible(list, gpus, true);
    const bool parts = list.find("MIG-") != std::string::npos;  // several may be of one GPU
    if (!parts && named && named->size() < split_names(list).size()) return {};
    found.counts_own = true;
    if (named) found.indices.insert(named->begin(), named->end());
  }
  return found;
}

/// Where a GPU is divided by MIG, Slurm numbers the parts: the number of one may be that of another whole GPU, of a
/// neighbour's.
bool has_parts(std::string_view environment, const GpuMaker& maker) {
  for (const std::string_view name : maker.visible) {
    for (const std::string& list : values_of(environment, name)) {
      if (list.find("MIG-") != std::string::npos) return true;
    }
  }
  return false;
}

}  // namespace

constexpr GpuMaker kNvidiaGpus{.device = "c 195:", .visible = kOfCuda, .container = kOfContainer};
constexpr GpuMaker kAmdGpus{.device = "c 226:", .visible = kOfRocm, .first_minor = 128};
constexpr GpuMaker kIntelGpus{.device = "c 226:", .visible = kOfLevelZero, .first_minor = 128};

JobGpus gpus_of_job(KernelTree& fs, const Job* job, std::span<const GpuIdentity> gpus, const GpuMaker& maker,
                    const std::set<int>& opened, bool divided) {
  JobGpus all;
  for (const GpuIdentity& gpu : gpus) all.indices.insert(gpu.index);
  if (job == nullptr) return all;
  const std::string environment = environment_of(fs, *job);
  const bool slurm = has_line(environment, kSlurm);
  const bool parts = has_parts(environment, maker);
  for (const std::string_view name : kOfSlurm) {
    if (parts) break;
    JobGpus found{{}, "Slurm"};
    for (const std::string& list : values_of(environment, name)) {
      found.indices.merge(with_minors(gpus, minors_of_slurm(gpus, parse_cpu_list(list), maker.first_minor)));
    }
    if (!found.indices.empty()) return found;
  }
  if (const auto minors = minors_of_cgroup(fs, *job, maker.device)) {
    const JobGpus found{with_minors(gpus, *minors), "devices cgroup"};
    if (!found.indices.empty()) return found;
  }
  // Open files are no allocation: a library opens all GPUs that it may.
  const JobGpus by_files{with_minors(gpus, std::vector<int>(opened.begin(), opened.end())), ""};
  const ContainerGpus container =
      slurm || maker.container.empty() ? ContainerGpus{} : gpus_of_container(environment, gpus, maker.container);
  const JobGpus of_container{container.indices, std::string(maker.container)};
  const JobGpus otherwise = slurm                        ? JobGpus{}
                            : !container.indices.empty() ? of_container
                            : !by_files.indices.empty()  ? by_files
                                                         : all;
  for (const std::string_view name : maker.visible) {
    JobGpus found{{}, std::string(name)};
    const std::vector<std::string> lists = values_of(environment, name);
    for (const std::string& list : lists) {
      auto indices = visible(list, gpus, !slurm && !divided && !container.counts_own);
      if (!indices) return otherwise;
      found.indices.merge(*indices);
    }
    if (!lists.empty()) return found;
  }
  return otherwise;
}

// https://download.nvidia.com/XFree86/Linux-x86_64/550.54.14/README/procinterface.html
GpusInProc gpus_in_proc(KernelTree& fs) {
  constexpr std::string_view kGpus = "/proc/driver/nvidia/gpus";
  GpusInProc found;
  int index = 0;
  for (const std::string& address : fs.list(kGpus)) {
    if (sleeps(fs.word("/sys/bus/pci/devices/" + address + "/power/runtime_status"))) {
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

std::string why_out_of_reach(KernelTree& fs, int minor) {
  const std::string file = "/dev/nvidia" + std::to_string(minor);
  return fs.fact("@gpu" + file, [&]() -> std::string {
    if (::access((fs.root() + file).c_str(), R_OK | W_OK) == 0) return "";
    if (errno == ENOENT) return file + " does not exist here, as in a container without this GPU";
    if (errno == EPERM || errno == EACCES) return file + " cannot be opened here, as in a container without this GPU";
    return "";
  });
}

// https://docs.kernel.org/gpu/amdgpu/amdgpu-glossary.html (KFD); https://github.com/ROCm/ROCR-Runtime (topology.c)
std::vector<ComputeDevice> compute_devices(KernelTree& fs) {
  constexpr std::string_view kFolder = "/sys/class/kfd/kfd/topology/nodes/";
  constexpr std::string_view kMinor = "drm_render_minor";
  constexpr std::size_t kMostDevices = 256;       // a recording may hold any number
  std::map<std::int64_t, ComputeDevice> devices;  // by the number of the node
  for (const std::string& node : fs.list(kFolder)) {
    const auto number = parse_int(node);
    const std::string folder = std::string(kFolder) + node;
    const std::string text = fs.text(folder + "/properties").value_or("");
    std::string_view rest = text;
    std::string_view line;
    while (number && next_line(rest, line)) {
      if (cut_word(line) != kMinor) continue;
      const auto minor = parse_int(cut_word(line));
      if (!minor || *minor <= 0 || devices.size() == kMostDevices) continue;  // processors are nodes without one
      devices[*number] = {static_cast<int>(*minor), parse_int(fs.word(folder + "/gpu_id")).value_or(0)};
    }
  }
  std::vector<ComputeDevice> ordered;
  ordered.reserve(devices.size());
  for (const auto& [node, device] : devices) ordered.push_back(device);
  return ordered;
}

DriverGpus amd_gpus(KernelTree& fs) {
  std::vector<RenderDevice> devices = render_devices(fs, "amdgpu");
  const std::vector<ComputeDevice> computing = compute_devices(fs);
  const auto place = [&computing](const RenderDevice& device) {
    const auto same = [&device](const ComputeDevice& one) { return one.minor == device.minor; };
    return std::find_if(computing.begin(), computing.end(), same) - computing.begin();
  };
  std::stable_sort(devices.begin(), devices.end(),
                   [&](const RenderDevice& a, const RenderDevice& b) { return place(a) < place(b); });
  DriverGpus found;
  for (const RenderDevice& device : devices) {
    GpuIdentity gpu{
        .index = static_cast<int>(found.gpus.size()), .minor = device.minor, .uuid = "", .address = device.address};
    const std::string folder = "/sys/bus/pci/devices/" + device.address;
    const std::string number = sleeps(fs.word(folder + "/power/runtime_status")) ? "" : fs.word(folder + "/unique_id");
    if (!number.empty()) gpu.uuid = "GPU-" + number;
    found.gpus.push_back(std::move(gpu));
  }
  found.divided = std::any_of(computing.begin(), computing.end(), [&](const ComputeDevice& part) {
    return std::none_of(devices.begin(), devices.end(),
                        [&part](const RenderDevice& one) { return one.minor == part.minor; });
  });
  return found;
}

std::string drm_card(KernelTree& fs, const std::string& pci_folder) {
  for (const std::string& name : fs.list(pci_folder + "/drm")) {
    if (name.starts_with("card")) return pci_folder + "/drm/" + name;
  }
  return "";
}

DriverGpus intel_gpus(KernelTree& fs) {
  std::vector<RenderDevice> devices = render_devices(fs, "i915");
  for (RenderDevice& device : render_devices(fs, "xe")) devices.push_back(std::move(device));
  std::sort(devices.begin(), devices.end(),
            [](const RenderDevice& a, const RenderDevice& b) { return a.minor < b.minor; });
  DriverGpus found;
  for (const RenderDevice& device : devices) {
    found.gpus.push_back(
        {.index = static_cast<int>(found.gpus.size()), .minor = device.minor, .uuid = "", .address = device.address});
    const std::string folder = "/sys/bus/pci/devices/" + device.address;
    // xe has a folder for each tile; of cards, i915 has a "gt" for each tile.
    found.divided =
        found.divided || !fs.list(folder + "/tile1").empty() || !fs.list(drm_card(fs, folder) + "/gt/gt1").empty();
  }
  return found;
}

}  // namespace reveal
