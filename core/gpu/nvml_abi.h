// The part of NVIDIA's management library (NVML) that is used, in declarations of our own: nothing of NVIDIA's is
// needed to build, and the library is loaded at run time. Sizes and places are those of the documented interface.
// https://docs.nvidia.com/deploy/nvml-api/
#pragma once

#include <cstddef>
#include <cstdint>

namespace reveal::nvml {

using Device = struct OpaqueDevice*;
using EventSet = struct OpaqueEventSet*;
using GpmSample = struct OpaqueGpmSample*;

/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
enum Result : int {
  kSuccess = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kInsufficientSize = 7,
  kInsufficientPower = 8,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kInterruptProblem = 11,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kVersionMismatch = 18,
  kUnknown = 999,
};

enum ClockType : int { kClockSm = 1, kClockMemory = 2 };
enum EccCounter : int { kVolatile = 0, kAggregate = 1 };
enum MemoryError : int { kCorrected = 0, kUncorrected = 1 };
/// Places of memory errors; newer GPUs count in device memory and in all of the SRAM.
enum MemoryLocation : int {
  kL1Cache = 0,
  kL2Cache = 1,
  kDeviceMemory = 2,
  kRegisterFile = 3,
  kTextureMemory = 4,
  kSharedMemory = 5,
  kControlUnit = 6,
  kSram = 7,
};
enum LinkError : int { kLinkReplay = 0, kLinkRecovery = 1, kLinkCrcFlit = 2, kLinkCrcData = 3 };
inline constexpr int kTemperatureOfGpu = 0;
inline constexpr int kThresholdSlowdown = 1;
inline constexpr unsigned kMostLinks = 18;

/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
enum Reason : std::uint64_t {
  kReasonIdle = 0x01,
  kReasonApplicationClocks = 0x02,
  kReasonPowerCap = 0x04,
  kReasonHwSlowdown = 0x08,
  kReasonSyncBoost = 0x10,
  kReasonSwThermal = 0x20,
  kReasonHwThermal = 0x40,
  kReasonPowerBrake = 0x80,
};

/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlEventType.html
inline constexpr std::uint64_t kEventXid = 0x8;

/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlFieldValueEnums.html
enum FieldId : unsigned {
  kFieldRetiredSingleBit = 29,  // pages, in the GPU's life
  kFieldRetiredDoubleBit = 30,
  kFieldRetiredPending = 31,
  kFieldPowerViolation = 74,    // ns
  kFieldThermalViolation = 75,  // ns
  kFieldMemoryTemperature = 82,
  kFieldNvlinkTx = 138,  // KiB; of all links with kAllLinks
  kFieldNvlinkRx = 139,
  kFieldPcieTx = 197,  // bytes
  kFieldPcieRx = 198,
};
inline constexpr unsigned kAllLinks = ~0U;
enum ValueType : int { kDouble = 0, kUnsignedInt = 1, kUnsignedLong = 2, kUnsignedLongLong = 3 };

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  int type;
  int result;
  union {
    double floating;
    unsigned small;
    unsigned long long large;
  } value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, type) == 24 && offsetof(FieldValue, value) == 32);

/// Values that the driver keeps in a buffer between two looks. https://docs.nvidia.com/deploy/nvml-api/ (nvmlSample_t)
enum SamplingType : int { kPowerSamples = 0, kUtilizationSamples = 1 };
struct Sample {
  unsigned long long timestamp;  // us
  union {
    double floating;
    unsigned small;
    unsigned long long large;
  } value;
};
static_assert(sizeof(Sample) == 16 && offsetof(Sample, value) == 8);

struct Utilization {
  unsigned gpu;  // percent of the sample period in which a kernel ran
  unsigned memory;
};
static_assert(sizeof(Utilization) == 8);

struct Memory {
  unsigned long long total, free, used;  // bytes
};
static_assert(sizeof(Memory) == 24);

/// Version 3; the bus id at its end has eight digits of domain: "00000000:81:00.0".
struct PciInfo {
  char short_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

/// Versions 2 and 3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;  // bytes; all bits set: not available
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, memory) == 8);

struct ProcessUtilization {
  unsigned pid;
  unsigned long long timestamp;  // us
  unsigned sm, memory, encoder, decoder;
};
static_assert(sizeof(ProcessUtilization) == 32 && offsetof(ProcessUtilization, sm) == 16);

/// Counters of the GPU's performance monitor (GPM), from Hopper on.
/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmStructs.html
enum GpmMetricId : unsigned {
  kGpmSmActive = 2,
  kGpmSmOccupancy = 3,
  kGpmTensorActive = 5,
  kGpmMemoryBandwidth = 10,
  kGpmPcieTx = 20,
  kGpmPcieRx = 21,
  kGpmNvlinkRx = 60,
  kGpmNvlinkTx = 61,
};
inline constexpr unsigned kGpmVersion = 1;
struct GpmSupport {
  unsigned version, supported;
};
static_assert(sizeof(GpmSupport) == 8);

struct GpmMetric {
  unsigned id;
  int result;
  double value;  // percent; of traffic MiB/s
  const char *short_name, *long_name, *unit;
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);

/// The library reads as many metrics as `count`; it may clear the whole of its own structure, which has room for all
/// that it knows.
struct GpmMetrics {
  static constexpr std::size_t kWanted = 8;
  unsigned version, count;
  GpmSample before, after;
  GpmMetric metrics[512];
};
static_assert(offsetof(GpmMetrics, before) == 8 && offsetof(GpmMetrics, metrics) == 24);

struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;  // the number of an Xid
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32 && offsetof(EventData, data) == 16);

}  // namespace reveal::nvml
