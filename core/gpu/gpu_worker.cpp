#include "core/gpu/gpu_worker.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cctype>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "core/gpu/call_pace.h"
#include "core/gpu/nvml_library.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/worker_process.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMostGpus = 64;
constexpr std::size_t kMostGpuProcesses = 128;
// The first drivers of R535 write elements of 32 bytes.
constexpr std::size_t kRoomForProcesses = kMostGpuProcesses * 32 / sizeof(nvml::ProcessInfo) + 1;
constexpr unsigned kLongestText = 96;
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr std::int64_t kMega = 1'000'000;
/// The rest of an answer is for events, which the driver reports only once, and for costs.
constexpr std::size_t kRoomForValues = WorkerProcess::kLongestAnswer - 4096;
constexpr std::string_view kOmitted = "omitted\n";
/// The shares of a processor that the library may take: for the values of each second, and for the others.
constexpr double kShareEachSecond = 0.004;
constexpr double kShareOfSlow = 0.001;

struct ClockReason {
  std::uint64_t bit;
  const char* metric;
};
constexpr std::array kClockReasons = {ClockReason{nvml::kReasonIdle, "gpu.reason_idle"},
                                      ClockReason{nvml::kReasonApplicationClocks, "gpu.reason_application_clocks"},
                                      ClockReason{nvml::kReasonPowerCap, "gpu.reason_power_cap"},
                                      ClockReason{nvml::kReasonHwSlowdown, "gpu.reason_hw_slowdown"},
                                      ClockReason{nvml::kReasonSyncBoost, "gpu.reason_sync_boost"},
                                      ClockReason{nvml::kReasonSwThermal, "gpu.reason_sw_thermal"},
                                      ClockReason{nvml::kReasonHwThermal, "gpu.reason_hw_thermal"},
                                      ClockReason{nvml::kReasonPowerBrake, "gpu.reason_power_brake"}};

struct Region {
  int location;
  const char* name;
};
constexpr std::array kRegions = {Region{nvml::kL1Cache, "l1"},
                                 Region{nvml::kL2Cache, "l2"},
                                 Region{nvml::kDeviceMemory, "dram"},
                                 Region{nvml::kRegisterFile, "registers"},
                                 Region{nvml::kTextureMemory, "texture"},
                                 Region{nvml::kSharedMemory, "shared"},
                                 Region{nvml::kControlUnit, "control"},
                                 Region{nvml::kSram, "sram"}};

struct Sampled {
  int type;
  const char* highest;
  const char* lowest;  // null: not of interest
  std::uint64_t divisor;
};
constexpr std::array kSampled = {
    Sampled{nvml::kPowerSamples, "gpu.power_highest", nullptr, 1000},
    Sampled{nvml::kUtilizationSamples, "gpu.utilization_highest", "gpu.utilization_lowest", 1}};

/// A counter of traffic: by the driver's field where that has 64 bits, else by the performance monitor. One of 32 bits
/// passes its end several times a second on a fast link: no number can be made of it.
struct Traffic {
  unsigned field, scope;
  std::uint64_t scale;
  unsigned monitored;
  const char* metric;
};
constexpr std::uint64_t kKibi = 1024;
constexpr std::array kTraffic = {
    Traffic{nvml::kFieldPcieTx, 0, 1, nvml::kGpmPcieTx, "pcie.tx_bytes"},
    Traffic{nvml::kFieldPcieRx, 0, 1, nvml::kGpmPcieRx, "pcie.rx_bytes"},
    Traffic{nvml::kFieldNvlinkTx, nvml::kAllLinks, kKibi, nvml::kGpmNvlinkTx, "nvlink.tx_bytes"},
    Traffic{nvml::kFieldNvlinkRx, nvml::kAllLinks, kKibi, nvml::kGpmNvlinkRx, "nvlink.rx_bytes"}};

/// A metric of the GPU's performance monitor.
struct Monitored {
  unsigned id;
  const char* metric;
};
constexpr std::array kMonitored = {Monitored{nvml::kGpmSmActive, "gpu.sm_active"},
                                   Monitored{nvml::kGpmSmOccupancy, "gpu.sm_occupancy"},
                                   Monitored{nvml::kGpmTensorActive, "gpu.tensor_active"},
                                   Monitored{nvml::kGpmMemoryBandwidth, "gpu.memory_bandwidth"}};
static_assert(kMonitored.size() + kTraffic.size() == nvml::GpmMetrics::kWanted);

struct Gpu {
  nvml::Device device = nullptr;
  int index = 0;
  int lost = nvml::kSuccess;                                         // the result that reported it
  bool watched = false;                                              // its errors are reported as events
  unsigned long long seen_process = 0;                               // time of the last sample of a process, us
  std::bitset<kRegions.size()> without_region = {};                  // known not to be counted
  std::array<unsigned long long, kSampled.size()> seen_sample = {};  // times of the last ones, us
  nvml::GpmSample monitor_before = nullptr, monitor_now = nullptr;   // null: no performance monitor
  SteadyClock::time_point monitored_at = {};                         // no time: the first of them was not taken
  std::bitset<kTraffic.size()> without_field = {};                   // known not to be a counter of 64 bits
  std::bitset<kTraffic.size()> field_refused = {};                   // the last answer was that it is not supported
};

/// One line of an answer. A part of a line would be a wrong number: one that does not fit is left out.
class Line {
 public:
  Line(std::string& answer, std::string_view head) : answer_(answer), text_(head) {}
  ~Line() {
    if (!any_) return;
    if (answer_.size() + text_.size() + 1 <= kRoomForValues) {
      answer_.append(text_).append(1, '\n');
    } else if (!answer_.ends_with(kOmitted)) {
      answer_.append(kOmitted);
    }
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void add(std::string_view metric, std::uint64_t value) {
    text_.append(1, ' ').append(metric).append(1, ' ').append(std::to_string(value));
    any_ = true;
  }

 private:
  std::string& answer_;
  std::string text_;
  bool any_ = false;
};

/// Printable, on one line.
std::string clean(const char* text) {
  std::string word(text);
  for (char& letter : word) {
    if (std::isprint(static_cast<unsigned char>(letter)) == 0) letter = '?';
  }
  return word;
}

/// "0000:81:00.0" of "00000000:81:00.0", as sysfs writes it.
std::string sysfs_address(std::string address) {
  constexpr std::size_t kDomain = 4;
  for (char& letter : address) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const std::size_t colon = address.find(':');
  return colon == std::string::npos || colon <= kDomain ? address : address.substr(colon - kDomain);
}

/// Whether a GPU may be broken. A container may lack the device of one that is not: mostly, that is another result.
bool is_broken(int result) {
  constexpr std::array kBroken = {nvml::kInsufficientPower, nvml::kInterruptProblem, nvml::kGpuIsLost,
                                  nvml::kResetRequired, nvml::kUnknown};
  return std::find(kBroken.begin(), kBroken.end(), result) != kBroken.end();
}

/// The answers of one GPU: once it is lost, no more requests are sent. A call that is slow or dear is left out of some
/// requests.
class Asked {
 public:
  Asked(Gpu& gpu, CallPaces& paces) : gpu_(gpu), paces_(paces) {}
  template <typename Call, typename... Arguments>
  bool operator()(const Call& call, Arguments... arguments) {
    if (gpu_.lost != nvml::kSuccess || call.name().empty()) return false;
    CallPace& pace = paces_.of(call.name());
    if (!pace.is_due()) return false;
    const auto begin = SteadyClock::now();
    const std::int64_t used = read_clock(CLOCK_THREAD_CPUTIME_ID);
    const int result = last_result_ = call(gpu_.device, arguments...);
    pace.took(SteadyClock::now() - begin, std::chrono::nanoseconds(read_clock(CLOCK_THREAD_CPUTIME_ID) - used));
    if (result == nvml::kGpuIsLost || result == nvml::kResetRequired) gpu_.lost = result;
    return result == nvml::kSuccess;
  }
  /// That of the last call that was made.
  [[nodiscard]] int last_result() const noexcept { return last_result_; }

 private:
  Gpu& gpu_;
  CallPaces& paces_;
  int last_result_ = nvml::kSuccess;
};

class Driver {
 public:
  explicit Driver(const std::string& library) : library_(library) {
    if (library_.event_set_create(&events_) != nvml::kSuccess) events_ = nullptr;
  }

  /// The periods of the requests, then the GPUs: opens those that are not open yet. Throws Unavailable if there is
  /// none, or none of them can be opened for another reason than that it is broken.
  void open(std::string_view gpus) {
    for (CallPaces* paces : {&each_second_, &slow_}) {
      const auto period = parse_int(cut_word(gpus));
      if (period && *period > 0) paces->set_period(std::chrono::milliseconds(*period));
    }
    unsigned count = 0;
    if (library_.count(&count) == nvml::kSuccess) count_ = std::min<std::size_t>(count, kMostGpus);
    const bool any = !gpus.empty();
    for (std::string_view word = cut_word(gpus); !word.empty(); word = cut_word(gpus)) {
      const std::size_t end = std::min(word.find('='), word.size());
      const auto index = parse_int(word.substr(0, end));
      if (index && *index >= 0)
        take(static_cast<int>(*index), std::string(word.substr(std::min(end + 1, word.size()))));
    }
    if (any ? gpus_.empty() && broken_.empty() : count_ == 0)
      throw Unavailable("the NVIDIA driver shows no GPU to this user");
  }

  std::string facts() {
    std::string answer;
    std::array<char, kLongestText> version{};
    if (library_.driver_version(version.data(), kLongestText) == nvml::kSuccess)
      answer = "driver " + clean(version.data()) + '\n';
    answer += "count " + std::to_string(count_) + '\n';
    for (const auto& [index, result] : broken_) add_lost(index, result, answer);
    broken_.clear();
    for (Gpu& gpu : gpus_) {
      if (gpu.lost != nvml::kSuccess) continue;
      add_facts(gpu, answer);
      if (!gpu.watched) answer += "unwatched " + std::to_string(gpu.index) + '\n';
      if (gpu.lost != nvml::kSuccess) add_lost(gpu.index, gpu.lost, answer);
    }
    return answer;
  }

  std::string fast(std::string_view indices) {
    std::string answer = "fast\n";
    each_second_.begin_request();
    for_each(indices, answer, [&](Gpu& gpu) { add_fast(gpu, answer); });
    add_events(answer);
    add_slow_calls(answer);
    return answer;
  }

  std::string slow(std::string_view indices) {
    std::string answer = "slow\n";
    each_second_.begin_request();
    slow_.begin_request();
    SteadyClock::duration fast{};
    const auto begin = SteadyClock::now();
    for_each(indices, answer, [&](Gpu& gpu) {
      const auto before = SteadyClock::now();
      add_fast(gpu, answer);
      fast += SteadyClock::now() - before;
      add_slow(gpu, answer);
    });
    // Values that matter less come last: there may be no room for them.
    for_each(indices, answer, [&](Gpu& gpu) {
      add_processes(gpu, answer);
      add_regions(gpu, answer);
    });
    for_each(indices, answer, [&](Gpu& gpu) { add_links(gpu, answer); });
    add_costs(answer, fast, SteadyClock::now() - begin);
    add_events(answer);
    add_slow_calls(answer);
    return answer;
  }

  /// Counters of which a report has the total, however dear they are, and the last events.
  std::string last(std::string_view indices) {
    std::string answer = "last\n";
    for_each(indices, answer, [&](Gpu& gpu) {
      Line line(answer, std::to_string(gpu.index));
      add_energy(Asked(gpu, at_the_ends_), line);
    });
    add_events(answer);
    return answer;
  }

 private:
  void take(int index, const std::string& address) {
    const bool open = std::any_of(gpus_.begin(), gpus_.end(), [index](const Gpu& gpu) { return gpu.index == index; });
    if (open || gpus_.size() == kMostGpus) return;
    nvml::Device device = nullptr;
    const int result = address.empty() ? library_.device_by_index(static_cast<unsigned>(index), &device)
                                       : library_.device_by_address(address.c_str(), &device);
    if (is_broken(result)) broken_[index] = result;
    if (result != nvml::kSuccess) return;
    gpus_.push_back({.device = device, .index = index});
    gpus_.back().watched =
        events_ != nullptr && library_.register_events(device, nvml::kEventXid, events_) == nvml::kSuccess;
    open_monitor(gpus_.back());
  }

  // Not where GPUs are divided: some drivers answered no other call about such a GPU after that.
  void open_monitor(Gpu& gpu) {
    unsigned mode = 0;
    unsigned pending = 0;
    if (library_.mig_mode(gpu.device, &mode, &pending) == nvml::kSuccess && mode == 1) return;
    nvml::GpmSupport support{.version = nvml::kGpmVersion, .supported = 0};
    if (library_.gpm_support(gpu.device, &support) != nvml::kSuccess || support.supported != 1) return;
    if (library_.gpm_sample_create(&gpu.monitor_before) != nvml::kSuccess ||
        library_.gpm_sample_create(&gpu.monitor_now) != nvml::kSuccess)
      gpu.monitor_now = nullptr;
  }

  template <typename Do>
  void for_each(std::string_view indices, std::string& answer, const Do& act) {
    for (std::string_view word = cut_word(indices); !word.empty(); word = cut_word(indices)) {
      const auto index = parse_int(word);
      for (Gpu& gpu : gpus_) {
        if (!index || gpu.index != *index || gpu.lost != nvml::kSuccess) continue;
        act(gpu);
        if (gpu.lost != nvml::kSuccess) add_lost(gpu.index, gpu.lost, answer);
      }
    }
  }

  static void add_lost(int index, int result, std::string& answer) {
    answer += "lost " + std::to_string(index) + ' ' + std::to_string(result) + '\n';
  }

  void add_fact(std::string& answer, const Gpu& gpu, std::string_view key, const std::string& value) const {
    if (!value.empty()) answer.append("fact " + std::to_string(gpu.index) + ' ').append(key).append(' ' + value + '\n');
  }

  void add_facts(Gpu& gpu, std::string& answer) {
    Asked asked(gpu, at_the_ends_);
    std::array<char, kLongestText> text{};
    const auto add = [&](std::string_view key, const std::string& value) { add_fact(answer, gpu, key, value); };
    if (asked(library_.name, text.data(), kLongestText)) add("name", clean(text.data()));
    if (asked(library_.uuid, text.data(), kLongestText)) add("uuid", clean(text.data()));
    nvml::PciInfo pci{};
    if (asked(library_.pci, &pci)) add("address", sysfs_address(clean(pci.bus_id)));
    unsigned value = 0;
    if (asked(library_.minor, &value)) add("minor", std::to_string(value));
    constexpr unsigned kMilliwatts = 1000;
    if (asked(library_.power_limit, &value)) add("power_limit", std::to_string(value / kMilliwatts));
    if (asked(library_.power_limit_default, &value)) add("power_limit_default", std::to_string(value / kMilliwatts));
    if (asked(library_.clock_most, nvml::kClockSm, &value)) add("sm_clock_most", std::to_string(value));
    if (asked(library_.clock_of_applications, nvml::kClockSm, &value)) add("sm_clock_set", std::to_string(value));
    if (asked(library_.clock_of_applications_default, nvml::kClockSm, &value))
      add("sm_clock_default", std::to_string(value));
    if (asked(library_.threshold, nvml::kThresholdSlowdown, &value)) add("slowdown_temperature", std::to_string(value));
    unsigned pending = 0;
    if (asked(library_.mig_mode, &value, &pending)) add("mig", value == 1 ? "enabled" : "disabled");
    int state = 0;
    int state_pending = 0;
    if (asked(library_.ecc_mode, &state, &state_pending)) add("ecc", state == 1 ? "enabled" : "disabled");
    if (asked(library_.persistence, &state)) add("persistence", state == 1 ? "enabled" : "disabled");
  }

  void add_fast(Gpu& gpu, std::string& answer) {
    Asked asked(gpu, each_second_);
    Line line(answer, std::to_string(gpu.index));
    nvml::Utilization utilization{};
    if (asked(library_.utilization, &utilization)) {
      line.add("gpu.utilization", utilization.gpu);
      line.add("gpu.memory_utilization", utilization.memory);
    }
    nvml::Memory memory{};
    if (asked(library_.memory, &memory)) {
      line.add("gpu.memory_used", memory.used);
      line.add("gpu.memory_free", memory.free);
    }
    constexpr unsigned kHalfWatt = 500;
    unsigned value = 0;
    unsigned long long large = 0;
    if (asked(library_.power, &value)) line.add("gpu.power", (std::uint64_t{value} + kHalfWatt) / 1000);
    if (asked(library_.clock, nvml::kClockSm, &value)) line.add("gpu.sm_clock", std::uint64_t{value} * kMega);
    if (asked(library_.reasons, &large)) {
      for (const ClockReason& reason : kClockReasons) line.add(reason.metric, (large & reason.bit) != 0 ? 1 : 0);
    }
    add_traffic(asked, gpu, line);
    add_monitored(asked, gpu, line, answer);
  }

  // The first answer, and one after a pause, reach further back than from one look to the next.
  void add_samples(Asked& asked, const Sampled& wanted, unsigned long long& seen, Line& line) {
    constexpr std::size_t kMostSamples = 512;
    constexpr unsigned long long kLookUs = 10'000'000;
    std::array<nvml::Sample, kMostSamples> samples{};
    auto count = static_cast<unsigned>(kMostSamples);
    int type = nvml::kDouble;
    if (!asked(library_.samples, wanted.type, seen, &type, &count, samples.data())) return;
    if (type != nvml::kUnsignedInt && type != nvml::kUnsignedLongLong) return;
    const auto end = samples.begin() + std::min<std::size_t>(count, kMostSamples);
    for (auto at = samples.begin(); at != end; ++at) seen = std::max(seen, at->timestamp);
    std::uint64_t highest = 0;
    std::uint64_t lowest = ~std::uint64_t{0};
    for (auto at = samples.begin(); at != end; ++at) {
      if (seen - at->timestamp >= kLookUs) continue;
      const std::uint64_t value = type == nvml::kUnsignedInt ? at->value.small : at->value.large;
      highest = std::max(highest, value);
      lowest = std::min(lowest, value);
    }
    if (lowest > highest) return;  // there was none
    line.add(wanted.highest, (highest + wanted.divisor / 2) / wanted.divisor);
    if (wanted.lowest != nullptr) line.add(wanted.lowest, (lowest + wanted.divisor / 2) / wanted.divisor);
  }

  // Means between two samples of the monitor.
  void add_monitored(Asked& asked, Gpu& gpu, Line& line, std::string& answer) {
    constexpr double kAll = 100;
    if (gpu.monitor_now == nullptr || !asked(library_.gpm_sample, gpu.monitor_now)) return;
    nvml::GpmMetrics wanted{.version = nvml::kGpmVersion,
                            .count = nvml::GpmMetrics::kWanted,
                            .before = gpu.monitor_before,
                            .after = gpu.monitor_now,
                            .metrics = {}};
    for (std::size_t i = 0; i < kMonitored.size(); ++i) wanted.metrics[i].id = kMonitored[i].id;
    for (std::size_t i = 0; i < kTraffic.size(); ++i) wanted.metrics[kMonitored.size() + i].id = kTraffic[i].monitored;
    const bool is_first = gpu.monitored_at == SteadyClock::time_point();
    const bool known = !is_first && library_.gpm_metrics(&wanted) == nvml::kSuccess;
    const auto now = SteadyClock::now();
    const std::chrono::duration<double> passed = now - gpu.monitored_at;
    gpu.monitored_at = now;
    std::swap(gpu.monitor_before, gpu.monitor_now);
    for (std::size_t i = 0; known && i < kMonitored.size(); ++i) {
      const nvml::GpmMetric& one = wanted.metrics[i];
      if (one.result == nvml::kSuccess && one.value >= 0 && one.value <= kAll)
        line.add(kMonitored[i].metric, static_cast<std::uint64_t>(std::llround(one.value)));
    }
    Line moved(answer, "moved " + std::to_string(gpu.index));
    for (std::size_t i = 0; known && i < kTraffic.size(); ++i) {
      constexpr double kMebi = 1024.0 * kKibi;
      constexpr double kMost = 1e8;  // MiB/s; no link has it
      const nvml::GpmMetric& one = wanted.metrics[kMonitored.size() + i];
      if (!gpu.without_field[i] || one.result != nvml::kSuccess || one.value < 0 || one.value > kMost) continue;
      moved.add(kTraffic[i].metric, static_cast<std::uint64_t>(one.value * kMebi * passed.count()));
    }
  }

  // In one call, which takes the driver's lock once. A driver that does not support a counter says so twice: it may be
  // busy once.
  void add_traffic(Asked& asked, Gpu& gpu, Line& line) {
    std::array<nvml::FieldValue, kTraffic.size()> values{};
    std::array<std::size_t, kTraffic.size()> wanted{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < kTraffic.size(); ++i) {
      if (gpu.without_field[i]) continue;
      values[count].field = kTraffic[i].field;
      values[count].scope = kTraffic[i].scope;
      values[count].result = nvml::kUnknown;
      wanted[count++] = i;
    }
    if (count == 0 || !asked(library_.fields, static_cast<int>(count), values.data())) return;
    for (std::size_t i = 0; i < count; ++i) {
      const Traffic& traffic = kTraffic[wanted[i]];
      const bool given = values[i].result == nvml::kSuccess;
      const bool wide = values[i].type == nvml::kUnsignedLongLong || values[i].type == nvml::kUnsignedLong;
      if (given && wide) line.add(traffic.metric, values[i].value.large * traffic.scale);
      const bool refused = values[i].result == nvml::kNotSupported;
      gpu.without_field[wanted[i]] = given ? !wide : refused && gpu.field_refused[wanted[i]];
      gpu.field_refused[wanted[i]] = refused;
    }
  }

  void add_slow(Gpu& gpu, std::string& answer) {
    Asked asked(gpu, slow_);
    Line line(answer, std::to_string(gpu.index));
    unsigned value = 0;
    unsigned long long large = 0;
    if (asked(library_.temperature, nvml::kTemperatureOfGpu, &value)) line.add("gpu.temperature", value);
    if (asked(library_.clock, nvml::kClockMemory, &value)) line.add("gpu.memory_clock", std::uint64_t{value} * kMega);
    add_energy(asked, line);
    for (std::size_t i = 0; i < kSampled.size(); ++i) add_samples(asked, kSampled[i], gpu.seen_sample[i], line);
    add_fields_of_health(asked, line);
    for (const auto& [type, counter, metric] :
         {std::tuple{nvml::kCorrected, nvml::kVolatile, "gpu.ecc_corrected"},
          std::tuple{nvml::kUncorrected, nvml::kVolatile, "gpu.ecc_uncorrected"},
          std::tuple{nvml::kCorrected, nvml::kAggregate, "gpu.ecc_corrected_ever"},
          std::tuple{nvml::kUncorrected, nvml::kAggregate, "gpu.ecc_uncorrected_ever"}}) {
      if (asked(library_.ecc_errors, type, counter, &large)) line.add(metric, large);
    }
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (asked(library_.remapped_rows, &corrected, &uncorrected, &pending, &failed)) {
      line.add("gpu.remapped_rows", std::uint64_t{corrected} + uncorrected);
      line.add("gpu.remap_pending", pending);
      line.add("gpu.remap_failed", failed);
    }
    if (asked(library_.pcie_generation, &value)) line.add("pcie.generation", value);
    if (asked(library_.pcie_generation_most, &value)) line.add("pcie.generation_most", value);
    if (asked(library_.pcie_width, &value)) line.add("pcie.width", value);
    if (asked(library_.pcie_width_most, &value)) line.add("pcie.width_most", value);
    if (asked(library_.pcie_replays, &value)) line.add("pcie.replays", value);
    unsigned period = 0;
    if (asked(library_.encoder, &value, &period)) line.add("gpu.encoder_utilization", value);
    if (asked(library_.decoder, &value, &period)) line.add("gpu.decoder_utilization", value);
  }

  void add_energy(Asked asked, Line& line) {
    constexpr unsigned long long kMicrojoules = 1000;  // in a millijoule
    unsigned long long energy = 0;
    if (asked(library_.energy, &energy)) line.add("gpu.energy", energy * kMicrojoules);
  }

  void add_fields_of_health(Asked& asked, Line& line) {
    constexpr std::array kFields = {nvml::kFieldMemoryTemperature, nvml::kFieldRetiredPending,
                                    nvml::kFieldRetiredSingleBit,  nvml::kFieldRetiredDoubleBit,
                                    nvml::kFieldPowerViolation,    nvml::kFieldThermalViolation};
    constexpr std::array kMetrics = {"gpu.memory_temperature",       "gpu.retired_pages_pending",
                                     "gpu.retired_pages_single_bit", "gpu.retired_pages_double_bit",
                                     "gpu.power_violation",          "gpu.thermal_violation"};
    std::array<nvml::FieldValue, kFields.size()> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].field = kFields[i];
      values[i].result = nvml::kNotSupported;
    }
    if (!asked(library_.fields, static_cast<int>(values.size()), values.data())) return;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].result != nvml::kSuccess) continue;
      if (values[i].type == nvml::kUnsignedInt) line.add(kMetrics[i], values[i].value.small);
      if (values[i].type == nvml::kUnsignedLongLong) line.add(kMetrics[i], values[i].value.large);
    }
  }

  void add_regions(Gpu& gpu, std::string& answer) {
    Asked asked(gpu, slow_);
    for (std::size_t i = 0; i < kRegions.size(); ++i) {
      if (gpu.without_region[i]) continue;
      Line line(answer, std::to_string(gpu.index) + '/' + kRegions[i].name);
      bool counted = false;
      for (const auto& [type, metric] : {std::pair{nvml::kCorrected, "gpu.ecc_corrected_in"},
                                         std::pair{nvml::kUncorrected, "gpu.ecc_uncorrected_in"}}) {
        unsigned long long count = 0;
        if (!asked(library_.ecc_errors_at, type, nvml::kVolatile, kRegions[i].location, &count)) continue;
        line.add(metric, count);
        counted = true;
      }
      gpu.without_region[i] = !counted && asked.last_result() == nvml::kNotSupported;
    }
  }

  void add_links(Gpu& gpu, std::string& answer) {
    Asked asked(gpu, slow_);
    for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
      int active = 0;
      if (!asked(library_.link_state, link, &active)) break;  // the first that it does not have
      Line line(answer, std::to_string(gpu.index) + "/link" + std::to_string(link));
      line.add("nvlink.active", active != 0 ? 1 : 0);  // a link that sleeps wakes for its next data
      unsigned long long count = 0;
      if (asked(library_.link_errors, link, nvml::kLinkReplay, &count)) line.add("nvlink.replays", count);
      if (asked(library_.link_errors, link, nvml::kLinkRecovery, &count)) line.add("nvlink.recoveries", count);
      unsigned long long sum = 0;
      bool whole = true;
      for (const int error : {nvml::kLinkCrcFlit, nvml::kLinkCrcData}) {
        whole = asked(library_.link_errors, link, error, &count) && whole;
        sum += count;
      }
      if (whole) line.add("nvlink.crc_errors", sum);
    }
  }

  void add_processes(Gpu& gpu, std::string& answer) {
    Asked asked(gpu, slow_);
    std::vector<nvml::ProcessInfo> processes(kRoomForProcesses);
    auto count = static_cast<unsigned>(kMostGpuProcesses);
    if (!asked(library_.processes, &count, processes.data())) return;
    processes.resize(std::min<std::size_t>(count, kMostGpuProcesses));
    std::vector<nvml::ProcessUtilization> samples(kMostGpuProcesses);
    auto known = static_cast<unsigned>(kMostGpuProcesses);
    if (!asked(library_.process_utilization, samples.data(), &known, gpu.seen_process)) known = 0;
    samples.resize(std::min<std::size_t>(known, kMostGpuProcesses));
    constexpr unsigned kAll = 100;  // percent; more is no measurement
    for (const nvml::ProcessInfo& process : processes) {
      Line line(answer, "process " + std::to_string(process.pid) + ' ' + std::to_string(gpu.index));
      if (process.memory != kNotAvailable) line.add("process.gpu_memory", process.memory);
      const nvml::ProcessUtilization* last = nullptr;
      for (const nvml::ProcessUtilization& sample : samples) {
        if (sample.pid == process.pid && sample.sm <= kAll && (last == nullptr || sample.timestamp > last->timestamp))
          last = &sample;
      }
      if (last != nullptr) line.add("process.gpu_utilization", last->sm);
    }
    for (const nvml::ProcessUtilization& sample : samples) {
      gpu.seen_process = std::max(gpu.seen_process, sample.timestamp);
    }
  }

  /// Once, of the first request that makes all calls.
  void add_costs(std::string& answer, SteadyClock::duration fast, SteadyClock::duration all) {
    if (costs_known_) return;
    costs_known_ = true;
    add_cost(answer, "each_second", fast);
    add_cost(answer, "all", all);
    std::map<std::string_view, std::chrono::nanoseconds> longest;
    for (const CallPaces* paces : {&at_the_ends_, &each_second_, &slow_}) {
      for (const auto& [name, pace] : paces->all()) longest[name] = std::max(longest[name], pace.longest());
    }
    for (const auto& [name, time] : longest) add_cost(answer, name, time);
  }
  static void add_cost(std::string& answer, std::string_view name, std::chrono::nanoseconds time) {
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    answer.append("cost ").append(name).append(1, ' ').append(std::to_string(microseconds)).append(1, '\n');
  }

  /// Calls that were slow on the clock more than once; each of them once. That a dear one rests is no such thing.
  void add_slow_calls(std::string& answer) {
    for (const CallPaces* paces : {&each_second_, &slow_}) {
      for (const auto& [name, pace] : paces->all()) {
        if (pace.every() > 2 && slow_calls_.insert(name).second)
          answer.append("slow_call ").append(name).append(1, '\n');
      }
    }
  }

  void add_events(std::string& answer) {
    constexpr int kAtOnce = 64;
    nvml::EventData event{};
    for (int i = 0; events_ != nullptr && i < kAtOnce; ++i) {
      const int result = library_.wait_for_event(events_, &event, 0U);
      if (result == nvml::kGpuIsLost) continue;  // one of them: the others may have more events
      if (result != nvml::kSuccess) return;
      const auto gpu =
          std::find_if(gpus_.begin(), gpus_.end(), [&](const Gpu& one) { return one.device == event.device; });
      if (event.type == nvml::kEventXid && gpu != gpus_.end()) {
        answer += "xid " + std::to_string(gpu->index) + ' ' + std::to_string(event.data) + '\n';
      }
    }
  }

  NvmlLibrary library_;
  std::vector<Gpu> gpus_;
  std::map<int, int> broken_;  // results with which GPUs could not be opened, until they are told
  std::size_t count_ = 0;
  nvml::EventSet events_ = nullptr;
  CallPaces at_the_ends_{CallPaces::kUnlimited};  // facts and totals, of which none may be missing
  CallPaces each_second_{kShareEachSecond}, slow_{kShareOfSlow};
  std::set<std::string_view> slow_calls_;
  bool costs_known_ = false;
};

}  // namespace

std::string query_gpus(const std::string& /*root*/, std::string_view request) {
  static std::unique_ptr<Driver> driver;  // the worker process serves only this probe
  const std::string_view what = request.substr(0, 4);
  request.remove_prefix(what.size());
  if (what == "open") {
    std::string_view gpus;
    static_cast<void>(next_line(request, gpus));
    try {
      if (!driver) driver = std::make_unique<Driver>(std::string(request));
      driver->open(gpus);
    } catch (const Unavailable& why) {
      return std::string("none ") + why.what() + '\n';
    }
    return driver->facts();
  }
  if (what == "end") {
    driver.reset();
    return "ended\n";
  }
  if (!driver) return "none not opened\n";
  if (what == "last") return driver->last(request);
  return what == "slow" ? driver->slow(request) : driver->fast(request);
}

}  // namespace reveal
