// A double of NVIDIA's management library for tests: the answers of its GPUs are in the file that NVML_DOUBLE names,
// read anew whenever it changes.
//
//   gpus 2                       of them; the rest of the lines are KEY VALUE, or GPU.KEY VALUE for one of them
//   utilization 97               what is not named is not supported
//   1.utilization 95*8,5*2       95 for 8 s, then 5 for 2 s, and again
//   memory_used 5000+100         grows by 100 in each second; after the + may be a course of seconds, too
//   power !15                    the call fails with result 15
//   latency 20                   each call takes so many milliseconds, in which it sleeps
//   spin.power 70                the call that answers "power" takes so many microseconds of processor time
//   crash 0*3,1*60               the process dies in the fourth second
//   log /tmp/calls               start and end of use are noted there
//   opened /tmp/opened           the number of each GPU that is opened
//   1.open !15                   opening this one fails with result 15
//   watch 3                      registering for events fails with result 3
//   wait_lost 2                  so many waits for an event end with a lost GPU
//
// Compiled with NVML_DOUBLE_OLD it lacks the calls that came with later versions.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/gpu/nvml_abi.h"
#include "hdf5schema/basics/clocks.h"

namespace {

using namespace reveal::nvml;
using Clock = std::chrono::steady_clock;

constexpr int kMostGpus = 16;
constexpr int kInvalid = 2;

struct Answer {
  int result = kNotSupported;
  unsigned long long value = 0;
};

class Double {
 public:
  void read() {
    const char* file = std::getenv("NVML_DOUBLE");
    struct stat status {};
    if (file == nullptr || ::stat(file, &status) != 0) return;
    const auto version = std::make_tuple(status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size);
    if (version == version_) return;
    version_ = version;
    lines_.clear();
    std::ifstream in(file);
    std::string key;
    std::string value;
    while (in >> key && std::getline(in >> std::ws, value)) lines_[key] = value;
    spins_ =
        std::any_of(lines_.begin(), lines_.end(), [](const auto& line) { return line.first.starts_with("spin."); });
  }

  /// As a driver does that waits for the GPU's own processor.
  void spin(const std::string& key, int gpu) {
    if (!spins_) return;
    const std::int64_t end =
        reveal::read_clock(CLOCK_THREAD_CPUTIME_ID) + 1000 * static_cast<std::int64_t>(ask("spin." + key, gpu).value);
    while (reveal::read_clock(CLOCK_THREAD_CPUTIME_ID) < end) continue;
  }

  [[nodiscard]] std::string text(const std::string& key, int gpu = -1) {
    const auto own = lines_.find(std::to_string(gpu) + '.' + key);
    if (own != lines_.end()) return own->second;
    const auto all = lines_.find(key);
    return all != lines_.end() ? all->second : "";
  }

  [[nodiscard]] Answer ask(const std::string& key, int gpu = -1) {
    const std::string course = text(key, gpu);
    if (const std::size_t plus = course.find('+'); plus != std::string::npos)
      return {kSuccess, std::strtoull(course.c_str(), nullptr, 10) + grown(course.substr(plus + 1))};
    const std::string value = now(course);
    if (value.empty()) return {};
    if (value.front() == '!') return {std::atoi(value.c_str() + 1), 0};
    return {kSuccess, std::strtoull(value.c_str(), nullptr, 10)};
  }

  /// The common part of all calls.
  void enter() {
    read();
    if (ask("crash").value != 0) std::abort();
    if (const auto latency = ask("latency").value; latency > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(latency));
    }
  }

  void log(const char* what) {
    const std::string file = text("log");
    if (!file.empty()) std::ofstream(file, std::ios::app) << what << '\n';
  }

  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  struct Part {
    std::string value;
    double seconds;
  };
  [[nodiscard]] static std::vector<Part> parts_of(const std::string& course) {
    std::vector<Part> parts;
    for (std::size_t at = 0; at < course.size();) {
      const std::size_t comma = std::min(course.find(',', at), course.size());
      const std::size_t star = std::min(course.find('*', at), course.size());
      parts.push_back(
          {course.substr(at, std::min(star, comma) - at), star < comma ? std::atof(course.c_str() + star + 1) : 1e9});
      at = comma + 1;
    }
    return parts;
  }
  [[nodiscard]] static double length_of(const std::vector<Part>& parts) {
    double length = 0;
    for (const Part& part : parts) length += part.seconds;
    return length;
  }

  /// The part of "95*8,5*2" that holds now.
  [[nodiscard]] std::string now(const std::string& course) const {
    const std::vector<Part> parts = parts_of(course);
    double left = std::fmod(seconds(), length_of(parts));
    for (const Part& part : parts) {
      if (left < part.seconds) return part.value;
      left -= part.seconds;
    }
    return "";
  }

  /// Since the library was loaded, with the rate of each part of the course.
  [[nodiscard]] unsigned long long grown(const std::string& course) const {
    const std::vector<Part> parts = parts_of(course);
    const double length = length_of(parts);
    double sum = 0;
    for (const Part& part : parts) sum += std::atof(part.value.c_str()) * part.seconds;
    sum *= std::floor(seconds() / length);
    double left = std::fmod(seconds(), length);
    for (const Part& part : parts) {
      sum += std::atof(part.value.c_str()) * std::clamp(left, 0.0, part.seconds);
      left -= part.seconds;
    }
    return static_cast<unsigned long long>(sum);
  }

  std::map<std::string, std::string> lines_;
  bool spins_ = false;
  std::tuple<long, long, long> version_{};
  Clock::time_point begin_ = Clock::now();
};

Double& self() {
  static Double instance;
  return instance;
}

char handles[kMostGpus];
int number_of(Device device) {
  return static_cast<int>(reinterpret_cast<char*>(device) - handles);
}
Device device_of(int number) {
  return reinterpret_cast<Device>(handles + number);
}
int gpus() {
  return static_cast<int>(self().ask("gpus").value);
}

template <typename T>
int give(Device device, const char* key, T* value) {
  self().enter();
  self().spin(key, number_of(device));
  const Answer answer = self().ask(key, number_of(device));
  if (answer.result == kSuccess) *value = static_cast<T>(answer.value);
  return answer.result;
}

int give_text(Device device, const char* key, const std::string& otherwise, char* text, unsigned length) {
  self().enter();
  std::string value = self().text(key, number_of(device));
  if (value.empty()) value = otherwise;
  std::snprintf(text, length, "%s", value.c_str());
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  self().enter();
  self().log("init");
  const Answer answer = self().ask("init");
  return answer.result == kNotSupported ? kSuccess : answer.result;
}
int nvmlShutdown() {
  self().log("shutdown");
  return kSuccess;
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "%s", "550.54.15");
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  self().enter();
  *count = static_cast<unsigned>(gpus());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  self().enter();
  if (index >= static_cast<unsigned>(gpus())) return kInvalid;
  const Answer opening = self().ask("open", static_cast<int>(index));
  if (opening.result != kSuccess && opening.result != kNotSupported) return opening.result;
  *device = device_of(static_cast<int>(index));
  if (const std::string file = self().text("opened"); !file.empty())
    std::ofstream(file, std::ios::app) << index << '\n';
  return kSuccess;
}
// A machine with GPUs of its own has other addresses: its GPUs get the double's, in the order of the calls.
int nvmlDeviceGetHandleByPciBusId_v2(const char*, Device* device) {
  static unsigned next = 0;
  return nvmlDeviceGetHandleByIndex_v2(next++, device);
}
int nvmlDeviceGetIndex(Device device, unsigned* index) {
  *index = static_cast<unsigned>(number_of(device));
  return kSuccess;
}
int nvmlDeviceGetName(Device device, char* text, unsigned length) {
  return give_text(device, "name", "Double", text, length);
}
int nvmlDeviceGetUUID(Device device, char* text, unsigned length) {
  return give_text(device, "uuid", "GPU-" + std::to_string(number_of(device)) + "1111111", text, length);
}
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  const std::string bus = "00000000:" + std::to_string(81 + number_of(device)) + ":00.0";
  return give_text(device, "address", bus, info->bus_id, sizeof info->bus_id);
}
int nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  return give(device, "minor", minor);
}
int nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  static_cast<void>(give(device, "memory_utilization", &utilization->memory));
  return give(device, "utilization", &utilization->gpu);
}
// "samples0 300000;640500": power, every 100 ms; each of them is given once.
int nvmlDeviceGetSamples(Device device, int type, unsigned long long seen, int* value_type, unsigned* count,
                         Sample* samples) {
  self().enter();
  constexpr int kNotFound = 6;
  constexpr unsigned long long kPeriod = 100'000;
  const std::string key = "samples" + std::to_string(type);
  self().spin(key, number_of(device));
  const std::string text = self().text(key, number_of(device));
  if (text.empty()) return kNotSupported;
  unsigned long long time = 0;
  unsigned given = 0;
  for (std::size_t at = 0; at != std::string::npos && given < *count; at = text.find(';', at + 1)) {
    time += kPeriod;
    if (time <= seen) continue;
    samples[given].timestamp = time;
    samples[given].value.small = static_cast<unsigned>(std::strtoul(text.c_str() + at + (at > 0 ? 1 : 0), nullptr, 10));
    ++given;
  }
  *value_type = kUnsignedInt;
  *count = given;
  return given == 0 ? kNotFound : kSuccess;
}
int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const int result = give(device, "memory_used", &memory->used);
  static_cast<void>(give(device, "memory_total", &memory->total));
  memory->free = memory->total - memory->used;
  return result;
}
int nvmlDeviceGetPowerUsage(Device device, unsigned* power) {
  return give(device, "power", power);
}
int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* energy) {
  self().enter();
  self().spin("energy", number_of(device));
  const Answer power = self().ask("power", number_of(device));
  if (power.result != kSuccess) return power.result;
  *energy = static_cast<unsigned long long>(static_cast<double>(power.value) * self().seconds());  // mW * s = mJ
  return kSuccess;
}
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* limit) {
  return give(device, "power_limit", limit);
}
int nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* limit) {
  return give(device, "power_limit_default", limit);
}
int nvmlDeviceGetClockInfo(Device device, int type, unsigned* clock) {
  return give(device, type == kClockSm ? "sm_clock" : "memory_clock", clock);
}
int nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned* clock) {
  return give(device, type == kClockSm ? "sm_clock_most" : "memory_clock_most", clock);
}
#ifdef NVML_DOUBLE_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return give(device, "reasons", reasons);
}
#else
int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  return give(device, "reasons", reasons);
}
int nvmlDeviceGetMigMode(Device device, unsigned* mode, unsigned* pending) {
  *pending = 0;
  return give(device, "mig", mode);
}
int nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = 0;
  static_cast<void>(give(device, "remap_failed", failed));
  static_cast<void>(give(device, "remapped_rows", uncorrected));
  return give(device, "remap_pending", pending);
}
// "field197 5"; "field197_narrow 1": a counter of 32 bits; "field197_refused 2": at first, so many answers are that it
// is not supported
int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    static unsigned long long refused = 0;
    const std::string field = "field" + std::to_string(values[i].field);
    values[i].result = kNotSupported;
    if (refused < self().ask(field + "_refused", number_of(device)).value) {
      ++refused;
      continue;
    }
    unsigned narrow = values[i].field == kFieldMemoryTemperature ? 1 : 0;
    static_cast<void>(give(device, (field + "_narrow").c_str(), &narrow));
    values[i].type = narrow != 0 ? kUnsignedInt : kUnsignedLongLong;
    values[i].result = give(device, field.c_str(), &values[i].value.large);
  }
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  return give(device, ("link" + std::to_string(link)).c_str(), active);
}
int nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, int, unsigned long long* count) {
  return give(device, ("link_errors" + std::to_string(link)).c_str(), count);
}
int nvmlEventSetCreate(EventSet* set) {
  *set = reinterpret_cast<EventSet>(handles);
  return kSuccess;
}
int nvmlDeviceRegisterEvents(Device device, unsigned long long, EventSet) {
  const std::string watch = self().text("watch", number_of(device));
  return watch.empty() ? kSuccess : std::atoi(watch.c_str());
}
// Each "xid" of the file once.
int nvmlEventSetWait_v2(EventSet, EventData* event, unsigned) {
  static bool reported[kMostGpus];
  static unsigned long long lost = 0;
  if (lost < self().ask("wait_lost").value) {
    ++lost;
    return kGpuIsLost;
  }
  for (int gpu = 0; gpu < gpus(); ++gpu) {
    const Answer xid = self().ask("xid", gpu);
    if (xid.value == 0 || reported[gpu]) continue;
    reported[gpu] = true;
    *event = {device_of(gpu), kEventXid, xid.value, 0, 0};
    return kSuccess;
  }
  return kTimeout;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* processes) {
  const int result = give(device, "process", &processes[0].pid);
  *count = 1;
  static_cast<void>(give(device, "process_memory", &processes[0].memory));
  return result;
}
int nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization* samples, unsigned* count, unsigned long long) {
  const int result = give(device, "process", &samples[0].pid);
  *count = 1;
  static_cast<void>(give(device, "process_utilization", &samples[0].sm));
  return result;
}
// "gpm 1" and "gpm5 41": the metric with the number 5
int nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  return give(device, "gpm", &support->supported);
}
int nvmlGpmSampleAlloc(GpmSample* sample) {
  *sample = reinterpret_cast<GpmSample>(new Device(nullptr));
  return kSuccess;
}
int nvmlGpmSampleGet(Device device, GpmSample sample) {
  unsigned supported = 0;
  *reinterpret_cast<Device*>(sample) = device;
  return give(device, "gpm", &supported);
}
int nvmlGpmMetricsGet(GpmMetrics* metrics) {
  if (metrics->version != kGpmVersion || *reinterpret_cast<Device*>(metrics->before) == nullptr) return kInvalid;
  const Device device = *reinterpret_cast<Device*>(metrics->after);
  for (unsigned i = 0; i < metrics->count; ++i) {
    GpmMetric& metric = metrics->metrics[i];
    metric.result = give(device, ("gpm" + std::to_string(metric.id)).c_str(), &metric.value);
  }
  return kSuccess;
}
int nvmlDeviceGetEncoderUtilization(Device device, unsigned* value, unsigned* period) {
  *period = 0;
  return give(device, "encoder", value);
}
#endif
int nvmlDeviceGetTemperature(Device device, int, unsigned* value) {
  return give(device, "temperature", value);
}
int nvmlDeviceGetEccMode(Device device, int* mode, int* pending) {
  *pending = 0;
  return give(device, "ecc", mode);
}
int nvmlDeviceGetPersistenceMode(Device device, int* mode) {
  return give(device, "persistence", mode);
}
int nvmlDeviceGetTotalEccErrors(Device device, int error, int counter, unsigned long long* count) {
  const std::string key = error == kCorrected ? "ecc_corrected" : "ecc_uncorrected";
  return give(device, (counter == kVolatile ? key : key + "_ever").c_str(), count);
}
// "region2_uncorrected 3": in device memory
int nvmlDeviceGetMemoryErrorCounter(Device device, int error, int, int location, unsigned long long* count) {
  const std::string key = "region" + std::to_string(location) + (error == kCorrected ? "_corrected" : "_uncorrected");
  return give(device, key.c_str(), count);
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device device, unsigned* value) {
  return give(device, "pcie_generation", value);
}
int nvmlDeviceGetCurrPcieLinkWidth(Device device, unsigned* value) {
  return give(device, "pcie_width", value);
}
int nvmlDeviceGetPcieReplayCounter(Device device, unsigned* value) {
  return give(device, "pcie_replays", value);
}
int nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned* value) {
  return give(device, "pcie_width_most", value);
}
int nvmlDeviceGetApplicationsClock(Device device, int, unsigned* clock) {
  return give(device, "sm_clock_set", clock);
}
int nvmlDeviceGetDefaultApplicationsClock(Device device, int, unsigned* clock) {
  return give(device, "sm_clock_default", clock);
}
int nvmlDeviceGetTemperatureThreshold(Device device, int, unsigned* value) {
  return give(device, "slowdown_temperature", value);
}

}  // extern "C"
