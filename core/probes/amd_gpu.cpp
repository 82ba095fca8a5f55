// AMD GPUs of the job, as the kernel's driver (amdgpu) shows them in files: no library of AMD's is needed. A child
// process reads them, because many of them are a request to the GPU's firmware, which waits while a GPU is being reset.
// https://docs.kernel.org/gpu/amdgpu/thermal.html
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/gpu/driver_gpu_probe.h"
#include "core/gpu/drm_clients.h"
#include "core/gpu/gpu_files.h"
#include "core/job/opened_devices.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::amd_gpu {
namespace {

constexpr MetricHelp kUtilization[] = {
    {"gpu.utilization",
     "Part of the time in which the GPU worked; like all metrics of this probe, of the previous second."},
    {"gpu.memory_utilization", "Part of the time in which its memory was read or written."},
};
constexpr MetricHelp kMemory[] = {
    {"gpu.memory_used", "Memory of the GPU in use, including the driver's own."},
    {"gpu.memory_free", "Free memory of the GPU."},
};
constexpr MetricHelp kPower[] = {{"gpu.power", "Power of the GPU and its memory."}};
constexpr MetricHelp kClocks[] = {
    {"gpu.sm_clock", "Clock of the compute units."},
    {"gpu.memory_clock", "Clock of the GPU's memory."},
};
constexpr MetricHelp kReasons[] = {
    {"gpu.reason_power_cap", "1 while the power limit lowers the clocks."},
    {"gpu.reason_sw_thermal", "1 while the firmware lowers the clocks for a temperature."},
    {"gpu.reason_hw_thermal", "1 while a voltage regulator or another device reports that it is too hot."},
};
constexpr MetricHelp kTemperatures[] = {
    {"gpu.temperature", "Temperature at the edge of the die; of GPUs without that sensor, the hottest place."},
    {"gpu.hotspot_temperature", "Temperature of the hottest place of the die (junction)."},
    {"gpu.memory_temperature", "Temperature of its memory."},
};
constexpr MetricHelp kErrors[] = {
    {"gpu.ecc_corrected", "Memory errors corrected since the driver was loaded."},
    {"gpu.ecc_uncorrected", "Memory errors not corrected since the driver was loaded."},
    {"pcie.replays", "Packets the GPU's PCI Express link repeated."},
};

constexpr MetricHelp kProcessMemory[] = {
    {"process.gpu_memory", "Memory of a process on a GPU (instance \"rank0/gpu1\")."}};
constexpr MetricHelp kProcessUtilization[] = {
    {"process.gpu_utilization",
     "Part of ten seconds in which the busiest group of engines worked for a process. Not measured where it uses ROCm, "
     "whose work bypasses the kernel."}};

constexpr const char* kDevice = "/sys/bus/pci/devices/*";
constexpr const char* kSensorFiles = "/sys/bus/pci/devices/*/hwmon";
constexpr FamilyTable kFamilies[] = {
    {"gpu/amd_utilization", Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu, "Utilization of AMD GPUs",
     kDevice, kUtilization},
    {"gpu/amd_memory", Kind::gauge, Unit::bytes, Scope::device, Subsystem::gpu, "Memory of AMD GPUs", kDevice, kMemory},
    {"gpu/amd_power", Kind::gauge, Unit::watts, Scope::device, Subsystem::gpu, "Power of AMD GPUs", kSensorFiles,
     kPower},
    {"gpu/amd_clocks", Kind::gauge, Unit::hertz, Scope::device, Subsystem::gpu, "Clocks of AMD GPUs", kSensorFiles,
     kClocks},
    {"gpu/amd_reasons", Kind::state, Unit::count, Scope::device, Subsystem::gpu,
     "Reasons that limit the clocks of AMD GPUs", "/sys/bus/pci/devices/*/gpu_metrics", kReasons},
    {"gpu/amd_temperatures", Kind::gauge, Unit::celsius, Scope::device, Subsystem::gpu, "Temperatures of AMD GPUs",
     kSensorFiles, kTemperatures},
    {"gpu/amd_errors", Kind::event, Unit::count, Scope::device, Subsystem::gpu, "Errors of AMD GPUs and their links",
     kDevice, kErrors},
    {"gpu/amd_process_memory", Kind::gauge, Unit::bytes, Scope::process, Subsystem::gpu,
     "Memory of the job's processes on AMD GPUs", "/sys/class/kfd/kfd/proc/*/vram_*, /proc/*/fdinfo/*", kProcessMemory},
    {"gpu/amd_process_utilization", Kind::gauge, Unit::percent, Scope::process, Subsystem::gpu,
     "Use of AMD GPUs by the job's processes", "/proc/*/fdinfo/*", kProcessUtilization},
};

/// Files of the device that hold one number each.
struct DeviceFile {
  std::string_view name;
  std::string_view metric;
  GpuPace pace;
};
constexpr std::array kDeviceFiles = {
    DeviceFile{"gpu_busy_percent", "gpu.utilization", GpuPace::fast},
    DeviceFile{"mem_busy_percent", "gpu.memory_utilization", GpuPace::fast},
    DeviceFile{"pcie_replay_count", "pcie.replays", GpuPace::slow},
};

/// Sensors: "temp2_input" is that of the label in "temp2_label". Power has a label too, but each generation its own.
struct Sensor {
  std::string_view begin, end;  // parts of a file name
  std::string_view label;       // "": any
  std::string_view metric;
  std::int64_t divisor;
  GpuPace pace;
};
constexpr std::string_view kTemperature = "gpu.temperature";
constexpr std::string_view kHotspot = "gpu.hotspot_temperature";
constexpr std::array kSensors = {
    Sensor{"power1", "_average", "", "gpu.power", 1'000'000, GpuPace::fast},
    Sensor{"power1", "_input", "", "gpu.power", 1'000'000, GpuPace::fast},  // newer GPUs have no average
    Sensor{"freq", "_input", "sclk", "gpu.sm_clock", 1, GpuPace::fast},
    Sensor{"freq", "_input", "mclk", "gpu.memory_clock", 1, GpuPace::fast},
    Sensor{"temp", "_input", "edge", kTemperature, 1000, GpuPace::slow},
    Sensor{"temp", "_input", "junction", kHotspot, 1000, GpuPace::slow},
    Sensor{"temp", "_input", "mem", "gpu.memory_temperature", 1000, GpuPace::slow},
};

/// The groups of bits in the status that is the same for all generations.
/// https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h
struct Throttlers {
  std::string_view metric;
  std::uint64_t bits;
};
constexpr std::array kThrottlers = {
    Throttlers{"gpu.reason_power_cap", 0xffULL},
    Throttlers{"gpu.reason_sw_thermal", 0xfffULL << 32},
    Throttlers{"gpu.reason_hw_thermal", 0xfULL << 44},
};

/// Its place is that of version 1.3 of the table, which GPUs from RDNA and CDNA 2 on have; those of CDNA 3 have others.
/// All bits are set where a GPU does not report it.
/// https://github.com/torvalds/linux/blob/master/drivers/gpu/drm/amd/include/kgd_pp_interface.h
std::optional<std::uint64_t> throttlers_of(std::string_view table) {
  constexpr std::size_t kPlace = 112;
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t bits = kNone;
  if (table.size() < kPlace + sizeof bits || table[2] != 1 || table[3] != 3) return std::nullopt;
  std::memcpy(&bits, table.data() + kPlace, sizeof bits);
  return bits == kNone ? std::nullopt : std::optional(bits);
}

/// The files of one GPU; in the child.
class AmdGpu {
 public:
  AmdGpu(KernelTree& fs, const std::string& number, const std::string& address)
      : files_(fs, number, address), address_(address) {}

  [[nodiscard]] bool is_asleep() { return files_.is_asleep(); }

  void answer(GpuPace pace, const DrmClients& clients, std::string& text) {
    if (files_.is_asleep()) {
      text += "asleep " + files_.number() + '\n';
      return;
    }
    if (!opened_) open(text);
    std::string line = files_.number();
    files_.append_values(line, pace);
    append_memory(line);
    if (const auto bits = throttlers_of(metrics_.read())) {
      for (const Throttlers& group : kThrottlers) append_value(line, group.metric, (*bits & group.bits) != 0 ? 1 : 0);
    }
    if (pace == GpuPace::slow) append_errors(line);
    text += line + '\n';
    if (pace == GpuPace::slow) append_uses(text, clients, address_, files_.number(), append_processes(text));
  }

 private:
  void open(std::string& text) {
    opened_ = true;
    KernelTree& fs = files_.tree();
    const std::string& folder = files_.folder();
    for (const DeviceFile& file : kDeviceFiles)
      files_.add(file.metric, folder + '/' + std::string(file.name), {}, file.pace);
    memory_used_ = fs.open(folder + "/mem_info_vram_used", 64);
    memory_total_ = parse_int(fs.word(folder + "/mem_info_vram_total")).value_or(0);
    metrics_ = fs.open(folder + "/gpu_metrics", 4096);
    errors_ = fs.open(folder + "/ras/umc_err_count", 256);
    files_.append_fact(text, "name", fs.word(folder + "/product_name"));
    const std::string partition = fs.word(folder + "/current_compute_partition");
    files_.append_fact(text, "partition", partition);
    if (partition.empty() || partition == "SPX") compute_id_ = compute_id();  // else each part has one of its own
    for (const std::string& monitor : fs.list(folder + "/hwmon"))
      open_sensors(folder + "/hwmon/" + monitor + '/', text);
  }

  void open_sensors(const std::string& folder, std::string& text) {
    KernelTree& fs = files_.tree();
    std::string limit;  // file with the limit of gpu.temperature
    std::string hotspot;
    for (const std::string& name : fs.list(folder)) {
      const std::string stem = folder + name.substr(0, name.find('_'));
      for (const Sensor& sensor : kSensors) {
        if (!name.starts_with(sensor.begin) || folder + name != stem + std::string(sensor.end)) continue;
        if (!sensor.label.empty() && fs.word(stem + "_label") != sensor.label) continue;
        if (!files_.has(sensor.metric)) files_.add(sensor.metric, folder + name, {1, sensor.divisor}, sensor.pace);
        if (sensor.metric == kTemperature) limit = stem + "_crit";
        if (sensor.metric == kHotspot) hotspot = stem;
      }
    }
    if (!files_.has(kTemperature) && !hotspot.empty()) {
      files_.add(kTemperature, hotspot + "_input", {1, 1000}, GpuPace::slow);
      limit = hotspot + "_crit";
    }
    files_.append_fact(text, "power_limit", whole_units(fs.word(folder + "power1_cap"), 1'000'000));
    files_.append_fact(text, "power_limit_default", whole_units(fs.word(folder + "power1_cap_default"), 1'000'000));
    if (!limit.empty()) files_.append_fact(text, "slowdown_temperature", whole_units(fs.word(limit), 1000));
  }

  /// 0 where the processes that the kernel names are not those of this PID namespace.
  [[nodiscard]] std::int64_t compute_id() const {
    KernelTree& fs = files_.tree();
    if (fs.word("/proc/2/comm") != "kthreadd") return 0;
    for (const RenderDevice& device : render_devices(fs, "amdgpu")) {
      if (!files_.folder().ends_with('/' + device.address)) continue;
      for (const ComputeDevice& one : compute_devices(fs)) {
        if (one.minor == device.minor) return one.id;
      }
    }
    return 0;
  }

  /// The processes of the compute driver, as far as it can be asked; returns them.
  std::set<int> append_processes(std::string& text) const {
    constexpr std::size_t kMostProcesses = 64;
    std::set<int> told;
    if (compute_id_ <= 0) return told;
    const std::string folder = "/sys/class/kfd/kfd/proc/";
    KernelTree& fs = files_.tree();
    std::size_t seen = 0;
    for (const std::string& pid : fs.list(folder)) {
      const auto bytes = parse_int(fs.word(folder + pid + "/vram_" + std::to_string(compute_id_)));
      if (!bytes || *bytes <= 0 || ++seen > kMostProcesses) continue;
      std::string line = "process " + pid + ' ' + files_.number();
      append_value(line, "process.gpu_memory", *bytes);
      text += line + '\n';
      if (const auto number = parse_int(pid)) told.insert(static_cast<int>(*number));
    }
    return told;
  }

  void append_memory(std::string& line) {
    std::int64_t used = 0;
    if (!parse_number_file(memory_used_.read(), used)) return;
    append_value(line, "gpu.memory_used", used);
    if (memory_total_ > 0 && memory_total_ >= used) append_value(line, "gpu.memory_free", memory_total_ - used);
  }

  /// "ue: 0" and "ce: 12", each on a line of its own. https://docs.kernel.org/gpu/amdgpu/ras.html
  void append_errors(std::string& line) {
    std::string_view text = errors_.read();
    std::string_view words;
    while (next_line(text, words)) {
      const std::string_view key = cut_word(words);
      std::int64_t count = 0;
      if (!parse_counter(cut_word(words), count)) continue;
      if (key == "ce:") append_value(line, "gpu.ecc_corrected", count);
      if (key == "ue:") append_value(line, "gpu.ecc_uncorrected", count);
    }
  }

  GpuFiles files_;
  std::string address_;
  bool opened_ = false;
  KernelFile memory_used_, metrics_, errors_;
  std::int64_t memory_total_ = 0;
  std::int64_t compute_id_ = 0;
};

/// The work of the child.
std::string read_files(const std::string& root, std::string_view words) {
  static KernelTree fs(root);
  static DrmClients clients(fs);
  static std::map<std::string, AmdGpu, std::less<>> gpus;
  const GpuRequest request = parse_gpu_request(words);
  const bool slow = request.pace == GpuPace::slow;
  std::set<std::string> asleep;
  for (const auto& [number, address] : request.gpus) {
    if (gpus.try_emplace(number, fs, number, address).first->second.is_asleep()) asleep.insert(address);
  }
  if (slow || !clients.knows(request.pids)) clients.follow(request.pids);
  if (slow) clients.read(request.time_ns, asleep);
  std::string text(request.pace == GpuPace::slow ? GpuRequest::kSlow : GpuRequest::kFast);
  text += '\n';
  for (const auto& [number, address] : request.gpus) gpus.at(number).answer(request.pace, clients, text);
  cut_answer(text);
  return text;
}

constexpr GpuDriver kDriver{.vendor = "AMD",
                            .words = {.probe = "amd_gpu", .object = "probe amd_gpu", .text = "the driver amdgpu"},
                            .read_files = read_files,
                            .families = kFamilies,
                            .first_slow = "gpu/amd_temperatures",
                            .maker = &kAmdGpus,
                            .find = amd_gpus,
                            .count_before = [](KernelTree& fs) { return fs.list("/proc/driver/nvidia/gpus").size(); },
                            .needs_processes = true};

std::unique_ptr<Probe> open_amd_gpu(const ProbeContext& context) {
  if (amd_gpus(context.fs).gpus.empty()) throw Unavailable("this host has no AMD GPU (no device of the driver amdgpu)");
  return probe_of_driver(context, kDriver);
}

const RegisteredProbe entry{
    {.name = "amd_gpu",
     .help = "AMD GPUs of the job: utilisation, memory, power, clocks each second; temperatures and errors every 10 s",
     .period = 1s,
     .may_block = true,
     .families = kFamilies,
     .open = open_amd_gpu,
     .remedy = "needs an AMD GPU and its kernel driver: modprobe amdgpu"}};

}  // namespace
}  // namespace reveal::probe::amd_gpu
