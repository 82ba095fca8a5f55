// AMD GPUs of the job, as the kernel's driver (amdgpu) shows them in files: no library of AMD's is needed. A child
// process reads them, because many of them are a request to the GPU's firmware, which waits while a GPU is being reset.
// https://docs.kernel.org/gpu/amdgpu/thermal.html
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "core/gpu/gpu_rows.h"
#include "core/gpu/job_gpus.h"
#include "core/job/opened_devices.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/asked_child.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::amd_gpu {
namespace {

constexpr std::int64_t kSlowPeriod = 10 * kSecond;
constexpr std::size_t kMostGpus = 32;

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
     "Memory of the job's processes on AMD GPUs", "/sys/class/kfd/kfd/proc/*/vram_*", kProcessMemory},
};
constexpr std::size_t kFirstSlow = 5;  // place of "gpu/amd_temperatures" among the families

enum class Pace : std::uint8_t { fast, slow };

/// Files of the device that hold one number each.
struct DeviceFile {
  std::string_view name;
  std::string_view metric;
  Pace pace;
};
constexpr std::array kDeviceFiles = {
    DeviceFile{"gpu_busy_percent", "gpu.utilization", Pace::fast},
    DeviceFile{"mem_busy_percent", "gpu.memory_utilization", Pace::fast},
    DeviceFile{"pcie_replay_count", "pcie.replays", Pace::slow},
};

/// Sensors: "temp2_input" is that of the label in "temp2_label". Power has a label too, but each generation its own.
struct Sensor {
  std::string_view begin, end;  // parts of a file name
  std::string_view label;       // "": any
  std::string_view metric;
  std::int64_t divisor;
  Pace pace;
};
constexpr std::string_view kTemperature = "gpu.temperature";
constexpr std::string_view kHotspot = "gpu.hotspot_temperature";
constexpr std::array kSensors = {
    Sensor{"power1", "_average", "", "gpu.power", 1'000'000, Pace::fast},
    Sensor{"power1", "_input", "", "gpu.power", 1'000'000, Pace::fast},  // newer GPUs have no average
    Sensor{"freq", "_input", "sclk", "gpu.sm_clock", 1, Pace::fast},
    Sensor{"freq", "_input", "mclk", "gpu.memory_clock", 1, Pace::fast},
    Sensor{"temp", "_input", "edge", kTemperature, 1000, Pace::slow},
    Sensor{"temp", "_input", "junction", kHotspot, 1000, Pace::slow},
    Sensor{"temp", "_input", "mem", "gpu.memory_temperature", 1000, Pace::slow},
};

struct Reading {
  std::string_view metric;
  KernelFile file;
  std::int64_t divisor = 1;
  Pace pace = Pace::fast;
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

void append(std::string& line, std::string_view metric, std::int64_t value) {
  line.append(1, ' ').append(metric).append(1, ' ').append(std::to_string(value));
}

/// The files of one GPU; in the child. The answer to a request has, for each of its GPUs, "asleep NUMBER" or "NUMBER
/// METRIC VALUE METRIC VALUE ...", "process PID NUMBER METRIC VALUE", and once "fact NUMBER KEY VALUE".
class GpuFiles {
 public:
  GpuFiles(KernelTree& fs, std::string number, std::string folder)
      : fs_(fs),
        number_(std::move(number)),
        folder_(std::move(folder)),
        status_(fs.open(folder_ + "/power/runtime_status", 64)) {}

  void answer(Pace pace, std::string& text) {
    const std::string_view status = status_.read();
    if (sleeps(status.substr(0, status.find('\n')))) {  // reading any other file would wake it
      text += "asleep " + number_ + '\n';
      return;
    }
    if (!opened_) open(text);
    std::string line = number_;
    for (Reading& reading : readings_) {
      std::int64_t value = 0;
      if (reading.pace == Pace::slow && pace == Pace::fast) continue;
      if (!parse_number_file(reading.file.read(), value)) continue;  // EBUSY while it is being reset
      append(line, reading.metric, value / reading.divisor + (value % reading.divisor * 2 >= reading.divisor ? 1 : 0));
    }
    append_memory(line);
    if (const auto bits = throttlers_of(metrics_.read())) {
      for (const Throttlers& group : kThrottlers) append(line, group.metric, (*bits & group.bits) != 0 ? 1 : 0);
    }
    if (pace == Pace::slow) append_errors(line);
    text += line + '\n';
    if (pace == Pace::slow && compute_id_ > 0) append_processes(text);
  }

 private:
  void open(std::string& text) {
    opened_ = true;
    for (const DeviceFile& file : kDeviceFiles)
      add({file.metric, fs_.open(folder_ + '/' + std::string(file.name), 64), 1, file.pace});
    memory_used_ = fs_.open(folder_ + "/mem_info_vram_used", 64);
    memory_total_ = parse_int(fs_.word(folder_ + "/mem_info_vram_total")).value_or(0);
    metrics_ = fs_.open(folder_ + "/gpu_metrics", 4096);
    errors_ = fs_.open(folder_ + "/ras/umc_err_count", 256);
    fact(text, "name", fs_.word(folder_ + "/product_name"));
    const std::string partition = fs_.word(folder_ + "/current_compute_partition");
    fact(text, "partition", partition);
    if (partition.empty() || partition == "SPX") compute_id_ = compute_id();  // else each part has one of its own
    for (const std::string& monitor : fs_.list(folder_ + "/hwmon"))
      open_sensors(folder_ + "/hwmon/" + monitor + '/', text);
  }

  void open_sensors(const std::string& folder, std::string& text) {
    std::string limit;  // file with the limit of gpu.temperature
    std::string hotspot;
    for (const std::string& name : fs_.list(folder)) {
      const std::string stem = folder + name.substr(0, name.find('_'));
      for (const Sensor& sensor : kSensors) {
        if (!name.starts_with(sensor.begin) || folder + name != stem + std::string(sensor.end)) continue;
        if (!sensor.label.empty() && fs_.word(stem + "_label") != sensor.label) continue;
        add({sensor.metric, fs_.open(folder + name, 64), sensor.divisor, sensor.pace});
        if (sensor.metric == kTemperature) limit = stem + "_crit";
        if (sensor.metric == kHotspot) hotspot = stem;
      }
    }
    if (!has(kTemperature) && !hotspot.empty()) {
      add({kTemperature, fs_.open(hotspot + "_input", 64), 1000, Pace::slow});
      limit = hotspot + "_crit";
    }
    fact(text, "power_limit", whole(fs_.word(folder + "power1_cap"), 1'000'000));
    fact(text, "power_limit_default", whole(fs_.word(folder + "power1_cap_default"), 1'000'000));
    if (!limit.empty()) fact(text, "slowdown_temperature", whole(fs_.word(limit), 1000));
  }

  static std::string whole(std::string_view word, std::int64_t divisor) {
    const auto value = parse_int(word);
    return value && *value > 0 ? std::to_string(*value / divisor) : "";
  }
  void fact(std::string& text, std::string_view key, const std::string& value) const {
    if (!value.empty())
      text.append("fact " + number_ + ' ').append(key).append(' ' + value.substr(0, value.find('\n')) + '\n');
  }
  [[nodiscard]] bool has(std::string_view metric) const {
    return std::any_of(readings_.begin(), readings_.end(),
                       [metric](const Reading& one) { return one.metric == metric; });
  }
  void add(Reading reading) {
    if (!has(reading.metric)) readings_.push_back(std::move(reading));
  }

  /// 0 where the processes that the kernel names are not those of this PID namespace.
  [[nodiscard]] std::int64_t compute_id() const {
    if (fs_.word("/proc/2/comm") != "kthreadd") return 0;
    for (const RenderDevice& device : render_devices(fs_, "amdgpu")) {
      if (!folder_.ends_with('/' + device.address)) continue;
      for (const ComputeDevice& one : compute_devices(fs_)) {
        if (one.minor == device.minor) return one.id;
      }
    }
    return 0;
  }
  void append_processes(std::string& text) const {
    constexpr std::size_t kMostProcesses = 64;
    const std::string folder = "/sys/class/kfd/kfd/proc/";
    std::size_t seen = 0;
    for (const std::string& pid : fs_.list(folder)) {
      const auto bytes = parse_int(fs_.word(folder + pid + "/vram_" + std::to_string(compute_id_)));
      if (!bytes || *bytes <= 0 || ++seen > kMostProcesses) continue;
      std::string line = "process " + pid + ' ' + number_;
      append(line, "process.gpu_memory", *bytes);
      text += line + '\n';
    }
  }

  void append_memory(std::string& line) {
    std::int64_t used = 0;
    if (!parse_number_file(memory_used_.read(), used)) return;
    append(line, "gpu.memory_used", used);
    if (memory_total_ > 0 && memory_total_ >= used) append(line, "gpu.memory_free", memory_total_ - used);
  }

  /// "ue: 0" and "ce: 12", each on a line of its own. https://docs.kernel.org/gpu/amdgpu/ras.html
  void append_errors(std::string& line) {
    std::string_view text = errors_.read();
    std::string_view words;
    while (next_line(text, words)) {
      const std::string_view key = cut_word(words);
      std::int64_t count = 0;
      if (!parse_counter(cut_word(words), count)) continue;
      if (key == "ce:") append(line, "gpu.ecc_corrected", count);
      if (key == "ue:") append(line, "gpu.ecc_uncorrected", count);
    }
  }

  KernelTree& fs_;
  std::string number_;
  std::string folder_;
  KernelFile status_;
  bool opened_ = false;
  std::vector<Reading> readings_;
  KernelFile memory_used_, metrics_, errors_;
  std::int64_t memory_total_ = 0;
  std::int64_t compute_id_ = 0;
};

constexpr std::string_view kFast = "fast";
constexpr std::string_view kSlow = "slow";

/// The work of the child: "fast NUMBER=ADDRESS ...", or "slow", which reads the other files too. The answer begins with
/// the same word.
std::string query_files(const std::string& root, std::string_view request) {
  static KernelTree fs(root);
  static std::map<std::string, GpuFiles, std::less<>> gpus;
  const std::string_view pace = cut_word(request);
  std::string text = std::string(pace) + '\n';
  for (std::string_view word = cut_word(request); !word.empty(); word = cut_word(request)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string number(word.substr(0, equals));
    auto gpu = gpus.find(number);
    if (gpu == gpus.end()) {
      if (gpus.size() == kMostGpus) continue;
      const std::string folder = "/sys/bus/pci/devices/" + std::string(word.substr(equals + 1));
      gpu = gpus.try_emplace(number, fs, number, folder).first;
    }
    gpu->second.answer(pace == kSlow ? Pace::slow : Pace::fast, text);
  }
  if (text.size() > WorkerProcess::kLongestAnswer) text.resize(text.rfind('\n', WorkerProcess::kLongestAnswer - 1) + 1);
  return text;
}

class AmdGpuProbe final : public Probe {
 public:
  explicit AmdGpuProbe(const ProbeContext& context)
      : context_(context),
        child_(context, query_files, {.probe = "amd_gpu", .object = "probe amd_gpu", .text = "the driver amdgpu"}),
        rows_(kFamilies),
        opened_(context.fs, "@job/render_devices"),
        before_(context.fs.list("/proc/driver/nvidia/gpus").size()) {
    child_.need();
    follow_job();
    const auto slow = std::max(context.period, std::chrono::nanoseconds(kSlowPeriod));
    rows_.open(context.sink, kFirstSlow, context.period, slow);
  }

  void sample() noexcept override try {
    take(child_.answer());
    hung_ = child_.hangs() || hung_;
    if (child_.state() == AskedChild::State::idle) ask();
  } catch (const std::exception& error) {  // no memory
    context_.sink.event("probe amd_gpu", "probe_lost", error.what());
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = child_.gaps();
    if (text.empty() && hung_) text = "the driver amdgpu did not answer for a part of the time";
    if (text.empty() && job_gpus_.indices.empty()) {
      text = job_gpus_.allocated_by.empty()
                 ? "none was measured: neither Slurm nor the devices cgroup assigns a GPU of this node to the job"
                 : "none was measured: " + job_gpus_.allocated_by + " names no GPU of this node";
    }
    std::string asleep;
    for (const auto& [number, gpu] : gpus_) {
      if (gpu.asleep) asleep += (asleep.empty() ? "gpu" : ", gpu") + number;
    }
    if (!asleep.empty()) text += (text.empty() ? "" : "; ") + ("asleep and not woken: " + asleep);
    return text;
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all;
    for (const GpuIdentity& gpu : identities_) {
      if (!job_gpus_.indices.contains(gpu.index)) continue;
      const std::string prefix = "gpu.gpu" + number_of(gpu) + '.';
      const std::string folder = "/sys/bus/pci/devices/" + gpu.address;
      const Snapshot own{{"vendor", "AMD"},
                         {"address", gpu.address},
                         {"minor", std::to_string(gpu.minor)},
                         {"uuid", gpu.uuid},
                         {"allocated_by", job_gpus_.allocated_by},
                         {"numa_node", context_.fs.word(folder + "/numa_node")},
                         {"local_cpus", context_.fs.word(folder + "/local_cpulist")}};
      for (const auto& [key, value] : own) {
        if (!value.empty()) all.emplace_back(prefix + key, value);
      }
      const auto known = gpus_.find(number_of(gpu));
      if (known == gpus_.end()) continue;
      for (const auto& [key, value] : known->second.facts) all.emplace_back(prefix + key, value);
    }
    return all;
  }

 private:
  struct GpuState {
    Snapshot facts;
    bool asleep = false;
  };

  /// NVIDIA's GPUs of the node come first.
  [[nodiscard]] std::string number_of(const GpuIdentity& gpu) const {
    return std::to_string(before_ + static_cast<std::size_t>(gpu.index));
  }

  // A GPU that belonged to the job once belongs to it until the end: processes that end take their environment along.
  void follow_job() {
    AmdGpus found = amd_gpus(context_.fs);
    identities_ = std::move(found.gpus);
    const bool named = !job_gpus_.allocated_by.empty();
    if (context_.job != nullptr && !named) opened_.look(context_.sink.now(), *context_.job);
    JobGpus now = gpus_of_job(context_.fs, context_.job, identities_, kAmdGpus, opened_.amd_gpus(), found.divided);
    if (!now.allocated_by.empty() && !job_gpus_.allocated_by.empty()) now.indices.merge(job_gpus_.indices);
    if (!now.allocated_by.empty() || job_gpus_.allocated_by.empty()) job_gpus_ = std::move(now);
    generation_ = context_.job != nullptr ? context_.job->generation() : 0;
  }

  [[nodiscard]] bool should_follow() const {
    return context_.job != nullptr && (job_gpus_.allocated_by.empty() || context_.job->generation() != generation_);
  }

  void ask() {
    const bool slow = context_.sink.now() >= next_slow_ns_;
    if (slow) next_slow_ns_ = context_.sink.now() + kSlowPeriod;
    if (slow && should_follow()) follow_job();
    request_ = slow ? kSlow : kFast;
    bool any = false;
    for (const GpuIdentity& gpu : identities_) {
      if (!job_gpus_.indices.contains(gpu.index)) continue;
      request_.append(1, ' ').append(number_of(gpu)).append(1, '=').append(gpu.address);
      any = true;
    }
    if (any) child_.ask(request_);
  }

  void take(std::string_view answer) {
    std::string_view line;
    if (!next_line(answer, line)) return;
    const bool slow = line == kSlow;
    if (!slow && line != kFast) return;
    rows_.begin(slow);
    while (next_line(answer, line)) take_line(line);
    rows_.commit(slow);
  }

  void take_line(std::string_view line) {
    const std::string_view head = cut_word(line);
    if (head == "process") {
      take_process(line);
      return;
    }
    if (head != "fact" && head != "asleep") {
      if (const auto gpu = gpus_.find(head); gpu != gpus_.end()) gpu->second.asleep = false;
      rows_.take("gpu", head, "job", line);
      return;
    }
    const std::string_view number = cut_word(line);
    auto gpu = gpus_.find(number);
    if (gpu == gpus_.end()) {
      if (gpus_.size() == kMostGpus) return;
      gpu = gpus_.emplace(std::string(number), GpuState()).first;
    }
    gpu->second.asleep = head == "asleep";
    const std::string_view key = cut_word(line);
    constexpr std::size_t kMostFacts = 16;
    const bool whole = head == "fact" && line.size() > 1 && gpu->second.facts.size() < kMostFacts;
    if (whole) gpu->second.facts.emplace_back(key, line.substr(1));
  }

  void take_process(std::string_view line) {
    const auto pid = parse_int(cut_word(line));
    const std::string_view gpu = cut_word(line);
    if (!pid || context_.slots == nullptr) return;
    for (const ProcessSlot& slot : context_.slots->slots()) {
      if (slot.pid == *pid && slot.process != nullptr) rows_.take(slot.instance + "/gpu", gpu, slot.role, line);
    }
  }

  ProbeContext context_;
  AskedChild child_;
  GpuRows rows_;
  OpenedDevices opened_;
  std::size_t before_;
  std::vector<GpuIdentity> identities_;  // all of the node
  JobGpus job_gpus_;
  std::map<std::string, GpuState, std::less<>> gpus_;
  std::string request_;
  std::uint64_t generation_ = 0;
  std::int64_t next_slow_ns_ = 0;
  bool hung_ = false;
};

std::unique_ptr<Probe> open_amd_gpu(const ProbeContext& context) {
  if (amd_gpus(context.fs).gpus.empty()) throw Unavailable("this host has no AMD GPU (no device of the driver amdgpu)");
  return std::make_unique<AmdGpuProbe>(context);
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
