// NVIDIA GPUs of the job, by the driver's management library (NVML) in a worker process: it may hang or crash, and the
// job and the collector go on. Values that the driver does not support for a GPU have no channel.
// https://docs.nvidia.com/deploy/nvml-api/
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "core/gpu/gpu_rows.h"
#include "core/gpu/gpu_worker.h"
#include "core/gpu/job_gpus.h"
#include "core/gpu/nvml_abi.h"
#include "core/job/opened_devices.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/asked_child.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::gpu {
namespace {

constexpr std::int64_t kSlowPeriod = 10 * kSecond;
constexpr std::int64_t kFollowPeriod = kSecond;
constexpr std::int64_t kLongestFollowPeriod = 20 * kSecond;
constexpr std::chrono::milliseconds kForTheStart{1500};
constexpr std::chrono::milliseconds kForTheEnd{500};

constexpr MetricHelp kUtilization[] = {
    {"gpu.utilization",
     "Part of the time in which a kernel ran on the GPU; like all metrics of this probe, of the previous second."},
    {"gpu.memory_utilization", "Part of the time in which its memory was read or written."},
};
constexpr MetricHelp kUtilizationExtremes[] = {
    {"gpu.utilization_highest", "Highest of the driver's samples of the utilization in the last 10 s."},
    {"gpu.utilization_lowest", "Lowest of these samples: short pauses show here."},
};
constexpr MetricHelp kMemory[] = {
    {"gpu.memory_used", "Memory of the GPU in use, including the driver's own."},
    {"gpu.memory_free", "Free memory of the GPU."},
};
constexpr MetricHelp kPower[] = {{"gpu.power", "Power of the GPU and its memory."}};
constexpr MetricHelp kPowerExtremes[] = {
    {"gpu.power_highest", "Highest of the driver's samples of the power in the last 10 s, as far as it keeps them."}};
constexpr MetricHelp kEnergy[] = {{"gpu.energy", "Energy the GPU used."}};
constexpr MetricHelp kClocks[] = {{"gpu.sm_clock", "Clock of the multiprocessors."}};
constexpr MetricHelp kMemoryClocks[] = {{"gpu.memory_clock", "Clock of the GPU's memory."}};
constexpr MetricHelp kReasons[] = {
    {"gpu.reason_idle", "1 while the clocks are low because nothing runs."},
    {"gpu.reason_application_clocks", "1 while a setting (nvidia-smi -ac, -lgc) fixes the clocks."},
    {"gpu.reason_power_cap", "1 while the power limit lowers the clocks."},
    {"gpu.reason_hw_slowdown", "1 while the hardware halves the clocks or more: heat, power brake or power supply."},
    {"gpu.reason_sync_boost", "1 while the clocks follow those of another GPU of a group."},
    {"gpu.reason_sw_thermal", "1 while the driver lowers the clocks for the temperature."},
    {"gpu.reason_hw_thermal", "1 while the hardware slows down for the temperature."},
    {"gpu.reason_power_brake", "1 while an external signal activates the board's power brake."},
};
constexpr MetricHelp kViolations[] = {
    {"gpu.power_violation", "Time in which the power limit lowered the clocks."},
    {"gpu.thermal_violation", "Time in which the temperature lowered the clocks."},
};
constexpr MetricHelp kTraffic[] = {
    {"pcie.tx_bytes", "Bytes the GPU sent over PCI Express."},
    {"pcie.rx_bytes", "Bytes the GPU received over PCI Express."},
    {"nvlink.tx_bytes", "Bytes the GPU sent over all its NVLinks."},
    {"nvlink.rx_bytes", "Bytes the GPU received over all its NVLinks."},
};
constexpr MetricHelp kActivity[] = {
    {"gpu.sm_active",
     "Part of the multiprocessors that had work, as the GPU's performance monitor counts it (Hopper and "
     "later)."},
    {"gpu.sm_occupancy", "Part of the warps that the multiprocessors can hold that were there."},
    {"gpu.tensor_active", "Part of the time in which the tensor cores worked."},
    {"gpu.memory_bandwidth", "Part of the highest bandwidth of the GPU's memory that was used."},
};
constexpr MetricHelp kTemperatures[] = {
    {"gpu.temperature", "Temperature of the GPU."},
    {"gpu.memory_temperature", "Temperature of its memory."},
};
constexpr std::string_view kXid = "gpu.xid";
constexpr MetricHelp kXids[] = {{kXid, "Critical errors that the driver reported (Xid)."}};
constexpr MetricHelp kErrors[] = {
    {"gpu.ecc_corrected", "Memory errors corrected since the driver was loaded."},
    {"gpu.ecc_uncorrected", "Memory errors not corrected since the driver was loaded."},
    {"gpu.ecc_corrected_in",
     "Memory errors corrected since the driver was loaded, by region (instance \"gpu0/dram\"; l1, l2, sram ...)."},
    {"gpu.ecc_uncorrected_in", "Memory errors not corrected since the driver was loaded, by region."},
    {"pcie.replays", "Packets the GPU's PCI Express link repeated."},
    {"nvlink.replays", "Packets an NVLink repeated (instance \"gpu0/link3\")."},
    {"nvlink.recoveries", "Number of retrainings of an NVLink."},
    {"nvlink.crc_errors", "Checksum errors of an NVLink."},
};
constexpr MetricHelp kStates[] = {
    {"gpu.ecc_corrected_ever", "Memory errors corrected in the GPU's life."},
    {"gpu.ecc_uncorrected_ever", "Memory errors not corrected in the GPU's life."},
    {"gpu.retired_pages_single_bit", "Pages retired in the GPU's life for repeated corrected errors."},
    {"gpu.retired_pages_double_bit", "Pages retired in the GPU's life for an error that was not corrected."},
    {"gpu.retired_pages_pending", "1 while pages wait to be retired until the GPU is reset."},
    {"gpu.remapped_rows", "Rows of memory replaced by spare ones."},
    {"gpu.remap_pending", "1 while a row waits to be replaced until the GPU is reset."},
    {"gpu.remap_failed", "1 once a row could not be replaced."},
    {"pcie.generation", "Generation of the PCI Express link; an idle GPU lowers it."},
    {"pcie.generation_most", "Highest generation that the GPU and its slot support."},
    {"pcie.width", "Lanes of the PCI Express link."},
    {"pcie.width_most", "Most lanes that the GPU and its slot support."},
    {"nvlink.active", "1 while an NVLink is up."},
};
constexpr MetricHelp kEngines[] = {
    {"gpu.encoder_utilization", "Part of the time in which the video encoder worked."},
    {"gpu.decoder_utilization", "Part of the time in which the video decoder worked."},
};
constexpr MetricHelp kProcessUtilization[] = {
    {"process.gpu_utilization", "Part of the time in which kernels of a process ran (instance \"rank0/gpu1\")."}};
constexpr MetricHelp kProcessMemory[] = {{"process.gpu_memory", "Memory of a process on a GPU."}};

constexpr const char* kSource = "NVML";
constexpr FamilyTable kFamilies[] = {
    {"gpu/utilization", Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu, "Utilization of GPUs", kSource,
     kUtilization},
    {"gpu/memory", Kind::gauge, Unit::bytes, Scope::device, Subsystem::gpu, "Memory of GPUs", kSource, kMemory},
    {"gpu/power", Kind::gauge, Unit::watts, Scope::device, Subsystem::gpu, "Power of GPUs", kSource, kPower},
    {"gpu/clocks", Kind::gauge, Unit::hertz, Scope::device, Subsystem::gpu, "Clocks of GPUs", kSource, kClocks},
    {"gpu/reasons", Kind::state, Unit::count, Scope::device, Subsystem::gpu, "Reasons that limit the clocks of GPUs",
     kSource, kReasons},
    {"gpu/traffic", Kind::counter, Unit::bytes, Scope::device, Subsystem::gpu, "Traffic of GPUs", kSource, kTraffic},
    {"gpu/xids", Kind::event, Unit::count, Scope::device, Subsystem::gpu, "Critical errors of GPUs", kSource, kXids},
    {"gpu/activity", Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu, "Activity within GPUs", kSource,
     kActivity},
    // Calls that cost milliseconds for each GPU (bench/gpu_machine.py measures them), and what hardly ever changes.
    {"gpu/energy", Kind::counter, Unit::microjoules, Scope::device, Subsystem::gpu, "Energy of GPUs", kSource, kEnergy},
    {"gpu/memory_clocks", Kind::gauge, Unit::hertz, Scope::device, Subsystem::gpu, "Clocks of the memory of GPUs",
     kSource, kMemoryClocks},
    {"gpu/power_extremes", Kind::gauge, Unit::watts, Scope::device, Subsystem::gpu, "Extremes of the power of GPUs",
     kSource, kPowerExtremes},
    {"gpu/utilization_extremes", Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu,
     "Extremes of the utilization of GPUs", kSource, kUtilizationExtremes},
    {"gpu/violations", Kind::counter, Unit::nanoseconds, Scope::device, Subsystem::gpu,
     "Time in which GPUs were slowed down", kSource, kViolations},
    {"gpu/temperatures", Kind::gauge, Unit::celsius, Scope::device, Subsystem::gpu, "Temperatures of GPUs", kSource,
     kTemperatures},
    {"gpu/errors", Kind::event, Unit::count, Scope::device, Subsystem::gpu, "Errors of GPUs and their links", kSource,
     kErrors},
    {"gpu/states", Kind::state, Unit::count, Scope::device, Subsystem::gpu, "State of GPUs and their links", kSource,
     kStates},
    {"gpu/engines", Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu, "Video engines of GPUs", kSource,
     kEngines},
    {"gpu/process_utilization", Kind::gauge, Unit::percent, Scope::process, Subsystem::gpu,
     "Use of GPUs by the job's processes", kSource, kProcessUtilization},
    {"gpu/process_memory", Kind::gauge, Unit::bytes, Scope::process, Subsystem::gpu,
     "Memory of the job's processes on GPUs", kSource, kProcessMemory},
};
constexpr std::string_view kEnergyFamily = "gpu/energy";

/// Why a GPU is lost, as the library reports it.
std::string words_of_loss(std::int64_t result) {
  switch (result) {
    case nvml::kResetRequired:
      return "it needs a reset";
    case nvml::kGpuIsLost:
      return "it has fallen off the bus";
    case nvml::kInsufficientPower:
      return "its power supply is not connected properly";
    case nvml::kUnknown:
      return "the driver reports an unknown error";
    default:
      return "the driver reports error " + std::to_string(result);
  }
}

class GpuProbe final : public Probe {
 public:
  explicit GpuProbe(const ProbeContext& context)
      : context_(context),
        child_(context, query_gpus, kWords),
        rows_(kFamilies),
        opened_devices_(context.fs, "@job/nvidia_devices") {
    follow_job();
    open_gpus();
    take_opening(child_.answer_within(kForTheStart));
    if (opened_ && lacks_gpus() && open_gpus()) take_opening(child_.answer_within(kForTheStart));
    if (context.fs.recorded() && !opened_) throw Unavailable("the recording has no GPUs");
    if (child_.state() == AskedChild::State::lost) throw Unavailable("the NVIDIA library crashed when it was loaded");
    rows_.open(context.sink, kEnergyFamily, context.period, slow_period());
  }

  ~GpuProbe() override {
    if (!closed_) close_driver();
  }
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;

  void sample() noexcept override try {
    // A recording keeps the last answer of each tick: before the first one, that to the opening.
    const bool answered = std::exchange(is_first_look_, false) && child_.state() == AskedChild::State::idle;
    const std::string_view answer = answered ? std::string_view() : child_.answer();
    if (!answer.empty()) take(answer);
    if (child_.state() == AskedChild::State::lost) opened_ = false;
    if (child_.was_restarted()) open_gpus();
    watch();
    if (opened_ && child_.state() == AskedChild::State::idle) ask();
  } catch (const std::exception& error) {  // no memory
    break_off(error);
  }

  // A recording ends with its last tick: a later answer would replace that tick's.
  void close() noexcept override try {
    if (context_.fs.recorded() || context_.fs.recording()) return;
    closed_ = true;
    if (child_.state() == AskedChild::State::busy) take_events(child_.answer_within(kForTheEnd));
    if (child_.state() != AskedChild::State::idle) return;  // it hangs, and is killed
    name_gpus("last");                                      // one that is lost may have events
    if (opened_ && child_.ask(request_)) take_last(child_.answer_within(kForTheEnd));
    close_driver();
  } catch (const std::exception& error) {  // no memory
    break_off(error);
  }

  [[nodiscard]] std::string caveat() const override {
    std::string text = child_.gaps();
    if (!gap_.empty()) text += (text.empty() ? "" : "; ") + gap_;
    if (!opened_ && text.empty()) text = "the NVIDIA library has not answered yet";
    if (opened_ && text.empty() && job_gpus_.indices.empty()) {
      text = job_gpus_.allocated_by.empty()
                 ? "none was measured: neither Slurm nor the devices cgroup assigns a whole GPU of this node to the job"
                 : "none was measured: " + job_gpus_.allocated_by + " names no GPU of this node";
    }
    if (!slow_calls_.empty()) text += (text.empty() ? "" : "; ") + slow_calls_words();
    if (asleep_ > 0) text += (text.empty() ? "" : "; ") + std::to_string(asleep_) + " GPUs sleep and were not woken";
    if (omitted_) text += (text.empty() ? "" : "; ") + std::string("there was no room for all values of so many GPUs");
    std::string unwatched;
    for (const auto& [index, gpu] : gpus_) {
      if (gpu.watched || !job_gpus_.indices.contains(index)) continue;
      unwatched += (unwatched.empty() ? "gpu" : ", gpu") + std::to_string(index);
    }
    if (!unwatched.empty()) text += (text.empty() ? "" : "; ") + ("the driver does not report Xids of " + unwatched);
    return text;
  }

  [[nodiscard]] Snapshot facts() const override {
    Snapshot all = driver_facts_;
    all.insert(all.end(), costs_.begin(), costs_.end());
    for (const auto& [index, gpu] : gpus_) {
      if (!job_gpus_.indices.contains(index)) continue;
      const std::string prefix = "gpu.gpu" + std::to_string(index) + '.';
      for (const auto& [key, value] : gpu.facts) all.emplace_back(prefix + key, value);
      if (!job_gpus_.allocated_by.empty()) all.emplace_back(prefix + "allocated_by", job_gpus_.allocated_by);
    }
    return all;
  }

 private:
  static constexpr AskedChildWords kWords = {.probe = "gpu",
                                             .recorded_as = "nvml",
                                             .lost = "the NVIDIA library crashed",
                                             .object = "probe gpu",
                                             .text = "the NVIDIA library"};
  struct GpuState {
    GpuIdentity identity;
    Snapshot facts;
    std::int64_t xids = 0;
    std::map<std::string, std::int64_t, std::less<>> moved;  // counters that the performance monitor knows as rates
    bool opened = true;
    bool watched = true;  // the driver reports its Xids
    bool lost = false;
  };

  [[nodiscard]] std::string slow_calls_words() const {
    std::string names;
    for (const std::string& call : slow_calls_) names += (names.empty() ? "" : ", ") + call;
    return "calls that took more than 50 ms were made less often: " + names;
  }
  [[nodiscard]] std::chrono::nanoseconds slow_period() const {
    return std::max(context_.period, std::chrono::nanoseconds(kSlowPeriod));
  }

  void take_opening(std::string_view answer) {
    if (answer.empty()) return;
    std::set<int> seen;
    std::string_view line;
    while (next_line(answer, line)) {
      const std::string_view what = cut_word(line);
      if (what == "none") throw Unavailable(std::string(line.substr(std::min<std::size_t>(1, line.size()))));
      if (what == "driver") driver_facts_ = {{"gpu.driver", std::string(cut_word(line))}};
      if (what == "count") {
        count_ = static_cast<int>(std::clamp<std::int64_t>(parse_int(cut_word(line)).value_or(0), 0, kMostIndex));
      }
      if (what == "fact") take_fact(line, seen);
      if (what == "unwatched") take_unwatched(line);
      if (what == "lost") take_unopened(line);
    }
    opened_ = count_ > 0 || !gpus_.empty();
    follow_job();
  }

  bool open_gpus() {
    using std::chrono::duration_cast;
    using std::chrono::milliseconds;
    std::string request = "open " + std::to_string(duration_cast<milliseconds>(context_.period).count()) + ' ' +
                          std::to_string(duration_cast<milliseconds>(slow_period()).count());
    for (const int index : job_gpus_.indices) {
      request += ' ' + std::to_string(index);
      const auto known = std::find_if(identities_.begin(), identities_.end(),
                                      [index = index](const GpuIdentity& gpu) { return gpu.index == index; });
      if (known != identities_.end() && !known->address.empty()) request += '=' + known->address;
    }
    if (!child_.ask(request.append(1, '\n').append(context_.gpu_library))) return false;
    asked_to_open_ = job_gpus_.indices;
    return true;
  }

  [[nodiscard]] bool lacks_gpus() const {
    return !std::includes(asked_to_open_.begin(), asked_to_open_.end(), job_gpus_.indices.begin(),
                          job_gpus_.indices.end());
  }

  void close_driver() {
    if (child_.state() == AskedChild::State::busy) static_cast<void>(child_.answer_within(kForTheEnd));
    if (child_.ask("end")) static_cast<void>(child_.answer_within(kForTheEnd));
  }

  void take_fact(std::string_view line, std::set<int>& seen) {
    const auto index = parse_int(cut_word(line));
    const std::string_view key = cut_word(line);
    if (!index || *index < 0 || *index > kMostIndex || line.size() < 2) return;
    const std::string value(line.substr(1));
    GpuState& gpu = gpus_[static_cast<int>(*index)];
    gpu.identity.index = static_cast<int>(*index);
    if (seen.insert(gpu.identity.index).second) gpu.facts.clear();
    if (key == "uuid") gpu.identity.uuid = value;
    if (key == "minor") gpu.identity.minor = static_cast<int>(parse_int(value).value_or(-1));
    gpu.facts.emplace_back(key, value);
    if (key != "address") return;
    const std::string folder = "/sys/bus/pci/devices/" + value;
    for (const auto& [file, name] : {std::pair{"/numa_node", "numa_node"}, std::pair{"/local_cpulist", "local_cpus"}}) {
      if (std::string text = context_.fs.word(folder + file); !text.empty()) gpu.facts.emplace_back(name, text);
    }
  }

  void take_unwatched(std::string_view line) {
    const auto index = parse_int(cut_word(line));
    const auto found = index ? gpus_.find(static_cast<int>(*index)) : gpus_.end();
    if (found != gpus_.end()) found->second.watched = false;
  }

  /// A GPU that was broken before the job could use it, or that a container lacks: the driver has one error for both.
  void take_unopened(std::string_view line) {
    const auto index = parse_int(cut_word(line));
    const auto result = parse_int(cut_word(line));
    if (!index || *index < 0 || *index > kMostIndex || !result) return;
    const int number = static_cast<int>(*index);
    GpuState& gpu = gpus_[number];
    if (gpu.lost) return;  // told before
    gpu.identity.index = number;
    gpu.opened = false;
    gpu.lost = true;
    const auto known = std::find_if(identities_.begin(), identities_.end(),
                                    [number](const GpuIdentity& one) { return one.index == number; });
    if (known != identities_.end() && !known->address.empty() && gpu.facts.empty()) {
      gpu.identity = *known;
      gpu.facts = {{"address", known->address}};
    }
    const std::string name = "gpu" + std::to_string(number);
    if (*result == nvml::kUnknown) {
      const int minor = gpu.identity.minor;
      const std::string away = why_out_of_reach(context_.fs, minor >= 0 ? minor : number);
      if (!away.empty()) {
        gap_ += (gap_.empty() ? "" : "; ") + name + " was not measured, because " + away;
        return;
      }
    }
    const std::string why = words_of_loss(*result);
    gap_ += (gap_.empty() ? "" : "; ") + name + " could not be opened: " + why;
    context_.sink.event(name, "gpu_lost", why + "; it could not be opened");
  }

  // The driver's text in /proc identifies the GPUs before any is opened; without it they are counted.
  void find_identities() {
    GpusInProc found = gpus_in_proc(context_.fs);
    asleep_ = found.asleep;
    identities_ = std::move(found.awake);
    if (!identities_.empty()) return;
    std::map<int, GpuIdentity> all;
    for (int i = 0; i < count_; ++i) all[i].index = i;
    for (const auto& [index, gpu] : gpus_) all[index] = gpu.identity;
    for (const auto& [index, identity] : all) identities_.push_back(identity);
  }

  // A GPU that belonged to the job once belongs to it until the end: processes that end take their environment along.
  void follow_job() {
    find_identities();
    if (context_.job != nullptr && !context_.job->of_slurm() && job_gpus_.allocated_by.empty())
      opened_devices_.look(context_.sink.now(), *context_.job);
    JobGpus now = gpus_of_job(context_.fs, context_.job, identities_, kNvidiaGpus, opened_devices_.nvidia_gpus());
    if (!now.allocated_by.empty() && !job_gpus_.allocated_by.empty()) now.indices.merge(job_gpus_.indices);
    if (!now.allocated_by.empty() || job_gpus_.allocated_by.empty()) job_gpus_ = std::move(now);
    generation_ = context_.job != nullptr ? context_.job->generation() : 0;
  }

  // Until the job's GPUs are known, each second at first and then less often: a job without GPUs is not read again and
  // again.
  void follow_when_due(bool slow) {
    if (context_.job == nullptr) return;
    if (!job_gpus_.indices.empty()) {
      if (slow && (job_gpus_.allocated_by.empty() || context_.job->generation() != generation_)) follow_job();
      return;
    }
    if (context_.sink.now() < next_follow_ns_) return;
    follow_job();
    next_follow_ns_ = context_.sink.now() + follow_period_;
    follow_period_ = std::min(2 * follow_period_, kLongestFollowPeriod);
  }

  void ask() {
    const bool slow = context_.sink.now() >= next_slow_ns_;
    if (slow) next_slow_ns_ = context_.sink.now() + kSlowPeriod;
    follow_when_due(slow);
    if (lacks_gpus() && open_gpus()) return;
    if (name_gpus(slow ? "slow" : "fast")) child_.ask(request_);
  }

  /// Makes a request about the GPUs that are measured; false where there is none.
  bool name_gpus(std::string_view what) {
    request_ = what;
    for (const auto& [index, gpu] : gpus_) {
      if (!gpu.lost && job_gpus_.indices.contains(index)) request_ += ' ' + std::to_string(index);
    }
    return request_.size() > what.size();
  }

  void take(std::string_view answer) {
    std::string_view rest = answer;
    std::string_view line;
    if (!next_line(rest, line)) return;
    const bool slow = line == "slow";
    if (!slow && line != "fast") {
      try {
        take_opening(answer);
      } catch (const Unavailable& why) {
        const std::string_view text = why.what();
        if (gap_.find(text) == std::string::npos) gap_.append(gap_.empty() ? "" : "; ").append(text);
      }
      return;
    }
    answer = rest;
    rows_.begin(slow);
    while (next_line(answer, line)) take_line(line);
    count_xids();
    rows_.commit(slow);
    if (slow) slow_row_ns_ = context_.sink.now();
  }

  // The energy from its last reading to the end. A row of the same tick has it.
  void take_last(std::string_view answer) {
    Family* energy = slow_row_ns_ < context_.sink.now() ? rows_.family(kEnergyFamily) : nullptr;
    if (energy != nullptr) energy->begin();
    std::string_view line;
    if (!next_line(answer, line) || line != "last") return;
    while (next_line(answer, line)) take_line(line);
    if (energy != nullptr) energy->commit();
  }

  void take_line(std::string_view line) {
    const std::string_view head = cut_word(line);
    if (head == "xid" || head == "lost") {
      take_event(head, line);
      return;
    }
    if (head == "omitted") {
      omitted_ = true;
      return;
    }
    if (head == "cost" || head == "slow_call") {
      take_cost(head, line);
      return;
    }
    if (head == "process") {
      rows_.take_process(context_.slots, line);
    } else if (head == "moved") {
      take_moved(line);
    } else {
      rows_.take("gpu", head, "job", line);
    }
  }

  // Summed here, so that the counters go on where another child follows.
  void take_moved(std::string_view line) {
    const std::string_view index = cut_word(line);
    const auto number = parse_int(index);
    const auto found = number ? gpus_.find(static_cast<int>(*number)) : gpus_.end();
    if (found == gpus_.end()) return;
    auto& moved = found->second.moved;
    for (std::string_view metric = cut_word(line); !metric.empty(); metric = cut_word(line)) {
      std::int64_t bytes = 0;
      if (!parse_counter(cut_word(line), bytes)) continue;
      auto known = moved.find(metric);
      if (known == moved.end() && moved.size() == std::size(kTraffic)) continue;
      if (known == moved.end()) known = moved.emplace(std::string(metric), 0).first;
      if (__builtin_add_overflow(known->second, bytes, &known->second)) known->second = 0;
      rows_.set("gpu", index, "job", metric, known->second, 0);
    }
  }

  void take_cost(std::string_view what, std::string_view line) {
    if (what == "slow_call") {
      constexpr std::size_t kMostNamed = 3;
      const std::string call(cut_word(line));
      context_.sink.event("probe gpu", "slow_call", call);
      if (slow_calls_.size() <= kMostNamed) slow_calls_.insert(call);
      return;
    }
    constexpr std::size_t kMostCosts = 64;
    const std::string_view name = cut_word(line);
    std::string fact = "gpu.call_us." + std::string(name);
    const bool is_known =  // from a child before this one
        std::any_of(costs_.begin(), costs_.end(), [&fact](const auto& cost) { return cost.first == fact; });
    if (!is_known && costs_.size() < kMostCosts) costs_.emplace_back(std::move(fact), cut_word(line));
  }

  void take_event(std::string_view what, std::string_view line) {
    const auto index = parse_int(cut_word(line));
    const auto found = index ? gpus_.find(static_cast<int>(*index)) : gpus_.end();
    if (found == gpus_.end()) return;
    const std::string name = "gpu" + std::to_string(found->first);
    if (what == "xid") {
      if (!job_gpus_.indices.contains(found->first)) return;
      ++found->second.xids;
      context_.sink.event(name, "xid", std::string(cut_word(line)));
      return;
    }
    found->second.lost = true;
    gap_ += (gap_.empty() ? "" : "; ") + name + " was lost while the job ran: there is no data of it after that";
    context_.sink.event(name, "gpu_lost", words_of_loss(parse_int(cut_word(line)).value_or(nvml::kGpuIsLost)));
  }

  void take_events(std::string_view answer) {
    std::string_view line;
    while (next_line(answer, line)) {
      const std::string_view head = cut_word(line);
      if (head == "xid" || head == "lost") take_event(head, line);
    }
  }

  // The driver reports each Xid once, so they are counted here, and from the beginning; its own counters are older.
  void count_xids() {
    for (const auto& [index, gpu] : gpus_) {
      if (gpu.opened && gpu.watched && job_gpus_.indices.contains(index))
        rows_.set("gpu", std::to_string(index), "job", kXid, gpu.xids, 0);
    }
  }

  // A library that hangs is waited for as long as the job runs: it costs nothing.
  void watch() {
    constexpr std::string_view kGap = "the NVIDIA library did not answer for a part of the time";
    if (!opened_ || !child_.hangs() || gap_.find(kGap) != std::string::npos) return;
    gap_ += (gap_.empty() ? "" : "; ") + std::string(kGap);
  }

  void break_off(const std::exception& error) noexcept {
    context_.sink.event("probe gpu", "probe_lost", error.what());
    opened_ = false;
    gap_ = std::string(error.what()) + ": there is no data of the GPUs after that";
  }

  static constexpr std::int64_t kMostIndex = 255;

  ProbeContext context_;
  AskedChild child_;
  GpuRows rows_;
  OpenedDevices opened_devices_;
  bool is_first_look_ = true;
  std::size_t asleep_ = 0;
  std::vector<GpuIdentity> identities_;  // all GPUs of the node
  std::map<int, GpuState> gpus_;         // that are open
  JobGpus job_gpus_;
  std::set<int> asked_to_open_;
  int count_ = 0;  // GPUs of the node, as the driver counts them
  Snapshot driver_facts_;
  Snapshot costs_;
  std::set<std::string> slow_calls_;
  std::string request_;
  std::string gap_;
  std::uint64_t generation_ = 0;
  std::int64_t next_slow_ns_ = 0;
  std::int64_t slow_row_ns_ = 0;
  std::int64_t next_follow_ns_ = 0;
  std::int64_t follow_period_ = kFollowPeriod;
  bool opened_ = false;
  bool closed_ = false;
  bool omitted_ = false;  // values, for lack of room in an answer
};

std::unique_ptr<Probe> open_gpu(const ProbeContext& context) {
  if (!context.fs.live() && !context.fs.recorded()) throw Unavailable("a copied tree has no GPUs");
  const GpusInProc found = gpus_in_proc(context.fs);
  if (found.asleep > 0 && found.awake.empty()) throw Unavailable("its GPUs sleep: a query would wake them");
  return std::make_unique<GpuProbe>(context);
}

const RegisteredProbe entry{
    {.name = "gpu",
     .help = "NVIDIA GPUs of the job: utilisation, memory, power, clocks, traffic each second; energy, errors and "
             "links every 10 s, less often where the driver takes long for them",
     .period = 1s,
     .may_block = true,
     .families = kFamilies,
     .open = open_gpu,
     .remedy = "needs an NVIDIA GPU and its driver; a library in another place: library in [gpu] of reveal.conf"}};

}  // namespace
}  // namespace reveal::probe::gpu
