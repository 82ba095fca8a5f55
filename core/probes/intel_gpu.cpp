// Intel's graphics cards of the job, as the kernel's drivers (i915, xe) show them in files: no library of Intel's is
// needed. Neither driver has a file with the utilization of a GPU: it is the time in which the engines worked for the
// job's processes, by their open device files. A child process reads all of this, because some of the files are a
// request to the GPU's firmware, which waits while a GPU is being reset.
// https://docs.kernel.org/gpu/drm-usage-stats.html
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/gpu/driver_gpu_probe.h"
#include "core/gpu/drm_clients.h"
#include "core/gpu/gpu_files.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal::probe::intel_gpu {
namespace {

constexpr MetricHelp kUtilization[] = {{"gpu.utilization",
                                        "Part of the time in which the busiest group of engines worked for the job; "
                                        "like all metrics of this probe, of the "
                                        "previous second."}};
constexpr MetricHelp kMemory[] = {
    {"gpu.memory_used", "Memory of the GPU in use, by all programs (only with i915 as Intel's packages have it)."},
    {"gpu.memory_free", "Free memory of the GPU."},
};
constexpr MetricHelp kPower[] = {{"gpu.power", "Mean power of the card since the previous reading."}};
constexpr MetricHelp kEnergy[] = {{"gpu.energy", "Energy the card used."}};
constexpr MetricHelp kClocks[] = {
    {"gpu.sm_clock", "Clock of the execution units; of several parts of the GPU, the highest; 0 while they are off."}};
constexpr MetricHelp kReasons[] = {
    {"gpu.reason_power_cap", "1 while a limit of power or current lowers the clocks."},
    {"gpu.reason_sw_thermal", "1 while the firmware lowers the clocks for a temperature."},
    {"gpu.reason_hw_thermal", "1 while a voltage regulator or another device reports that it is too hot."},
};
constexpr MetricHelp kTemperatures[] = {
    {"gpu.temperature", "Temperature of the GPU."},
    {"gpu.memory_temperature", "Temperature of its memory."},
};
constexpr MetricHelp kProcessUtilization[] = {
    {"process.gpu_utilization",
     "Part of the time in which the busiest group of engines worked for a process (instance \"rank0/gpu1\")."}};
constexpr MetricHelp kProcessMemory[] = {{"process.gpu_memory", "Memory of a process on a GPU."}};

constexpr const char* kClients = "/proc/*/fdinfo/*";
constexpr const char* kSensorFiles = "/sys/bus/pci/devices/*/hwmon";
constexpr const char* kParts = "/sys/bus/pci/devices/*/{drm/card*/gt,tile*/gt*/freq0}";
constexpr FamilyTable kFamilies[] = {
    {"gpu/intel_utilization", Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu, "Use of Intel GPUs by the job",
     kClients, kUtilization},
    {"gpu/intel_memory", Kind::gauge, Unit::bytes, Scope::device, Subsystem::gpu, "Memory of Intel GPUs",
     "/sys/bus/pci/devices/*/drm/card*/lmem_*", kMemory},
    {"gpu/intel_power", Kind::gauge, Unit::watts, Scope::device, Subsystem::gpu, "Power of Intel GPUs", kSensorFiles,
     kPower},
    {"gpu/intel_energy", Kind::counter, Unit::microjoules, Scope::device, Subsystem::gpu, "Energy of Intel GPUs",
     kSensorFiles, kEnergy},
    {"gpu/intel_clocks", Kind::gauge, Unit::hertz, Scope::device, Subsystem::gpu, "Clocks of Intel GPUs", kParts,
     kClocks},
    {"gpu/intel_reasons", Kind::state, Unit::count, Scope::device, Subsystem::gpu,
     "Reasons that limit the clocks of Intel GPUs", kParts, kReasons},
    {"gpu/intel_process_utilization", Kind::gauge, Unit::percent, Scope::process, Subsystem::gpu,
     "Use of Intel GPUs by the job's processes", kClients, kProcessUtilization},
    {"gpu/intel_process_memory", Kind::gauge, Unit::bytes, Scope::process, Subsystem::gpu,
     "Memory of the job's processes on Intel GPUs", kClients, kProcessMemory},
    {"gpu/intel_temperatures", Kind::gauge, Unit::celsius, Scope::device, Subsystem::gpu, "Temperatures of Intel GPUs",
     kSensorFiles, kTemperatures},
};

constexpr GpuFiles::Scale kMegahertz{1'000'000, 1};
constexpr GpuFiles::Scale kMillidegrees{1, 1000};

/// A file of each part of a GPU; each driver has its own names.
struct PartFile {
  std::string_view i915;  // in drm/card0/gt/gt0; "": none
  std::string_view xe;    // in tile0/gt0/freq0
  std::string_view metric;
  GpuFiles::Scale scale;
};
constexpr std::string_view kPowerCap = "gpu.reason_power_cap";
constexpr std::string_view kSwThermal = "gpu.reason_sw_thermal";
constexpr std::string_view kHwThermal = "gpu.reason_hw_thermal";
// https://docs.kernel.org/gpu/xe/xe_gt_freq.html; the newest cards of xe have other reasons than the older ones.
constexpr PartFile kPartFiles[] = {
    {"rps_act_freq_mhz", "act_freq", "gpu.sm_clock", kMegahertz},
    {"throttle_reason_pl1", "throttle/reason_pl1", kPowerCap, {}},
    {"throttle_reason_pl2", "throttle/reason_pl2", kPowerCap, {}},
    {"throttle_reason_pl4", "throttle/reason_pl4", kPowerCap, {}},
    {"throttle_reason_vr_tdc", "throttle/reason_vr_tdc", kPowerCap, {}},
    {"", "throttle/reason_iccmax", kPowerCap, {}},
    {"", "throttle/reason_psys_pl1", kPowerCap, {}},
    {"", "throttle/reason_psys_pl2", kPowerCap, {}},
    {"throttle_reason_thermal", "throttle/reason_thermal", kSwThermal, {}},
    {"throttle_reason_ratl", "throttle/reason_ratl", kSwThermal, {}},
    {"", "throttle/reason_soc_thermal", kSwThermal, {}},
    {"", "throttle/reason_soc_avg_thermal", kSwThermal, {}},
    {"", "throttle/reason_mem_thermal", kSwThermal, {}},
    {"throttle_reason_prochot", "throttle/reason_prochot", kHwThermal, {}},
    {"throttle_reason_vr_thermalert", "throttle/reason_vr_thermalert", kHwThermal, {}},
    {"", "throttle/reason_vr_thermal", kHwThermal, {}},
};

/// Sensors of the monitor with this name; some cards have only those of the package (energy2_input) for those of the
/// card (energy1_input). https://docs.kernel.org/admin-guide/abi-testing.html (intel-xe-hwmon)
struct SensorFile {
  std::string_view monitor;
  std::string_view file;
  std::string_view metric;
};
constexpr SensorFile kSensorTable[] = {
    {"i915", "temp1_input", "gpu.temperature"},
    {"xe", "temp2_input", "gpu.temperature"},
    {"xe", "temp3_input", "gpu.memory_temperature"},
};

/// Begins with the word, and then has digits only: "gt0", "tile1".
bool is_part(std::string_view name, std::string_view word) {
  return name.starts_with(word) && name.size() > word.size() &&
         name.find_first_not_of("0123456789", word.size()) == std::string_view::npos;
}

/// The files of one GPU; in the child.
class IntelGpu {
 public:
  IntelGpu(KernelTree& fs, const std::string& number, const std::string& address)
      : files_(fs, number, address), address_(address) {}

  [[nodiscard]] bool is_asleep() { return files_.is_asleep(); }

  void answer(const GpuRequest& request, const DrmClients& clients, std::string& text) {
    if (is_asleep()) {
      text += "asleep " + files_.number() + '\n';
      energy_before_ = kMissing;
      return;
    }
    if (!opened_) open(text);
    std::string line = files_.number();
    files_.append_values(line, request.pace);
    append_memory(line);
    append_energy(line, request.time_ns);
    if (const auto percent = clients.percent(address_)) append_value(line, "gpu.utilization", std::llround(*percent));
    text += line + '\n';
    append_uses(text, clients, address_, files_.number());
  }

 private:
  void open(std::string& text) {
    opened_ = true;
    KernelTree& fs = files_.tree();
    const std::string card = drm_card(fs, files_.folder());
    for (const std::string& part : fs.list(card + "/gt")) {
      if (is_part(part, "gt")) open_part(card + "/gt/" + part + '/', &PartFile::i915);
    }
    for (const std::string& tile : fs.list(files_.folder())) {
      if (!is_part(tile, "tile")) continue;
      const std::string folder = files_.folder() + '/' + tile + '/';
      for (const std::string& part : fs.list(folder)) {
        if (is_part(part, "gt")) open_part(folder + part + "/freq0/", &PartFile::xe);
      }
    }
    memory_free_ = fs.open(card + "/lmem_avail_bytes", 64);
    if (!parse_counter(fs.word(card + "/lmem_total_bytes"), memory_total_)) memory_total_ = kMissing;
    for (const std::string& monitor : fs.list(files_.folder() + "/hwmon"))
      open_sensors(files_.folder() + "/hwmon/" + monitor + '/', text);
  }

  void open_part(const std::string& folder, std::string_view PartFile::*name) {
    for (const PartFile& file : kPartFiles) {
      const std::string_view own = file.*name;
      const std::string path = folder + std::string(own);
      if (!own.empty() && !files_.tree().word(path).empty()) files_.add(file.metric, path, file.scale, GpuPace::fast);
    }
  }

  void open_sensors(const std::string& folder, std::string& text) {
    KernelTree& fs = files_.tree();
    const std::string name = fs.word(folder + "name");
    if (name != "i915" && name != "xe") return;  // i915 has further monitors for the tiles: "i915_gt0"
    for (const SensorFile& sensor : kSensorTable) {
      if (sensor.monitor == name)
        files_.add(sensor.metric, folder + std::string(sensor.file), kMillidegrees, GpuPace::slow);
    }
    const auto first_of = [&](std::string_view kind, std::string_view rest) {
      const std::string of_card = std::string(kind) + "1_" + std::string(rest);
      return folder + (fs.word(folder + of_card).empty() ? std::string(kind) + "2_" + std::string(rest) : of_card);
    };
    energy_ = fs.open(first_of("energy", "input"), 64);
    files_.append_fact(text, "power_limit", whole_units(fs.word(first_of("power", "max")), 1'000'000));
    files_.append_fact(text, "power_limit_default", whole_units(fs.word(first_of("power", "rated_max")), 1'000'000));
  }

  void append_memory(std::string& line) {
    std::int64_t available = 0;
    if (!memory_free_ || !parse_number_file(memory_free_.read(), available) || available > memory_total_) return;
    append_value(line, "gpu.memory_used", memory_total_ - available);
    append_value(line, "gpu.memory_free", available);
  }

  void append_energy(std::string& line, std::int64_t now_ns) {
    std::int64_t energy = 0;
    if (!energy_ || !parse_number_file(energy_.read(), energy)) energy = kMissing;
    if (energy != kMissing) append_value(line, "gpu.energy", energy);
    const bool both = energy != kMissing && energy_before_ != kMissing && energy >= energy_before_;
    if (both && now_ns > energy_at_ns_) {
      constexpr double kWatts = 1e3;  // microjoules in a nanosecond
      const double power = static_cast<double>(energy - energy_before_) / static_cast<double>(now_ns - energy_at_ns_);
      append_value(line, "gpu.power", std::llround(kWatts * power));
    }
    energy_before_ = energy;
    energy_at_ns_ = now_ns;
  }

  GpuFiles files_;
  std::string address_;
  bool opened_ = false;
  KernelFile memory_free_, energy_;
  std::int64_t memory_total_ = kMissing;
  std::int64_t energy_before_ = kMissing;
  std::int64_t energy_at_ns_ = 0;
};

/// The work of the child.
std::string read_files(const std::string& root, std::string_view words) {
  static KernelTree fs(root);
  static DrmClients clients(fs);
  static std::map<std::string, IntelGpu, std::less<>> gpus;
  const GpuRequest request = parse_gpu_request(words);
  std::set<std::string> asleep;
  for (const auto& [number, address] : request.gpus) {
    const auto gpu = gpus.try_emplace(number, fs, number, address).first;
    if (gpu->second.is_asleep()) asleep.insert(address);
  }
  clients.follow(request.pids);
  clients.read(request.time_ns, asleep);
  std::string text(request.pace == GpuPace::slow ? GpuRequest::kSlow : GpuRequest::kFast);
  text += '\n';
  for (const auto& [number, address] : request.gpus) {
    gpus.at(number).answer(request, clients, text);
  }
  cut_answer(text);
  return text;
}

constexpr GpuDriver kDriver{
    .vendor = "Intel",
    .words = {.probe = "intel_gpu", .object = "probe intel_gpu", .text = "the driver of Intel's GPUs"},
    .read_files = read_files,
    .families = kFamilies,
    .first_slow = "gpu/intel_temperatures",
    .maker = &kIntelGpus,
    .find = intel_gpus,
    .count_before =
        [](KernelTree& fs) { return fs.list("/proc/driver/nvidia/gpus").size() + amd_gpus(fs).gpus.size(); },
    .needs_processes = true};

std::unique_ptr<Probe> open_intel_gpu(const ProbeContext& context) {
  if (intel_gpus(context.fs).gpus.empty())
    throw Unavailable("this host has no graphics card of Intel (no device of the drivers i915 and xe)");
  return probe_of_driver(context, kDriver);
}

const RegisteredProbe entry{
    {.name = "intel_gpu",
     .help =
         "Intel graphics cards of the job: use by its processes, power, clocks each second; temperatures every 10 s",
     .period = 1s,
     .may_block = true,
     .families = kFamilies,
     .open = open_intel_gpu,
     .remedy = "needs a graphics card of Intel and its kernel driver: modprobe xe"}};

}  // namespace
}  // namespace reveal::probe::intel_gpu
