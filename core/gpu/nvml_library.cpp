#include "core/gpu/nvml_library.h"

#include <dlfcn.h>

#include <utility>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

std::string why_not_started(int result) {
  switch (result) {
    case nvml::kDriverNotLoaded:
      return "the NVIDIA driver is not loaded on this host";
    case nvml::kVersionMismatch:
      return "the NVIDIA driver and its library are of different versions: the driver was updated without a reboot";
    case nvml::kNoPermission:
      return "the NVIDIA driver refuses this user";
    case nvml::kUnknown:
      // https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html
      return "NVML does not start (error 999, unknown), as in a container without access to the devices of the driver";
    default:
      return "NVML does not start (error " + std::to_string(result) + ")";
  }
}

}  // namespace

template <typename... Parameters>
void NvmlLibrary::Call<Parameters...>::find(void* library, std::initializer_list<const char*> names) {
  for (const char* symbol : names) {
    if (function_ != nullptr) return;
    function_ = reinterpret_cast<int (*)(Parameters...)>(::dlsym(library, symbol));
    if (function_ != nullptr) name_ = symbol;
  }
}

NvmlLibrary::NvmlLibrary(const std::string& file) : library_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) throw Unavailable("no NVIDIA driver here (" + file + " cannot be loaded)");
  Call<> start;
  start.find(library_, {"nvmlInit_v2", "nvmlInit"});
  const int result = start();
  if (result != nvml::kSuccess) {
    ::dlclose(std::exchange(library_, nullptr));
    throw Unavailable(result == nvml::kNotSupported ? file + " is not NVML" : why_not_started(result));
  }
  shutdown_.find(library_, {"nvmlShutdown"});
  find_calls();
}

// The library stays loaded: threads of the driver may still run its code.
NvmlLibrary::~NvmlLibrary() {
  static_cast<void>(shutdown_());
}

// Highest version first, with the structures of nvml_abi.h.
void NvmlLibrary::find_calls() {
  driver_version.find(library_, {"nvmlSystemGetDriverVersion"});
  count.find(library_, {"nvmlDeviceGetCount_v2"});
  device_by_index.find(library_, {"nvmlDeviceGetHandleByIndex_v2"});
  device_by_address.find(library_, {"nvmlDeviceGetHandleByPciBusId_v2"});
  name.find(library_, {"nvmlDeviceGetName"});
  uuid.find(library_, {"nvmlDeviceGetUUID"});
  minor.find(library_, {"nvmlDeviceGetMinorNumber"});
  power.find(library_, {"nvmlDeviceGetPowerUsage"});
  power_limit.find(library_, {"nvmlDeviceGetEnforcedPowerLimit"});
  power_limit_default.find(library_, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  pcie_generation.find(library_, {"nvmlDeviceGetCurrPcieLinkGeneration"});
  pcie_width.find(library_, {"nvmlDeviceGetCurrPcieLinkWidth"});
  pcie_generation_most.find(library_, {"nvmlDeviceGetMaxPcieLinkGeneration"});
  pcie_width_most.find(library_, {"nvmlDeviceGetMaxPcieLinkWidth"});
  pcie_replays.find(library_, {"nvmlDeviceGetPcieReplayCounter"});
  pci.find(library_, {"nvmlDeviceGetPciInfo_v3"});
  utilization.find(library_, {"nvmlDeviceGetUtilizationRates"});
  samples.find(library_, {"nvmlDeviceGetSamples"});
  memory.find(library_, {"nvmlDeviceGetMemoryInfo"});
  clock.find(library_, {"nvmlDeviceGetClockInfo"});
  clock_most.find(library_, {"nvmlDeviceGetMaxClockInfo"});
  clock_of_applications.find(library_, {"nvmlDeviceGetApplicationsClock"});
  clock_of_applications_default.find(library_, {"nvmlDeviceGetDefaultApplicationsClock"});
  reasons.find(library_, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  energy.find(library_, {"nvmlDeviceGetTotalEnergyConsumption"});
  temperature.find(library_, {"nvmlDeviceGetTemperature"});
  threshold.find(library_, {"nvmlDeviceGetTemperatureThreshold"});
  encoder.find(library_, {"nvmlDeviceGetEncoderUtilization"});
  decoder.find(library_, {"nvmlDeviceGetDecoderUtilization"});
  mig_mode.find(library_, {"nvmlDeviceGetMigMode"});
  persistence.find(library_, {"nvmlDeviceGetPersistenceMode"});
  ecc_mode.find(library_, {"nvmlDeviceGetEccMode"});
  ecc_errors.find(library_, {"nvmlDeviceGetTotalEccErrors"});
  ecc_errors_at.find(library_, {"nvmlDeviceGetMemoryErrorCounter"});
  remapped_rows.find(library_, {"nvmlDeviceGetRemappedRows"});
  fields.find(library_, {"nvmlDeviceGetFieldValues"});
  link_state.find(library_, {"nvmlDeviceGetNvLinkState"});
  link_errors.find(library_, {"nvmlDeviceGetNvLinkErrorCounter"});
  // The first drivers of R535 have larger structures in version 3.
  processes.find(library_, {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"});
  process_utilization.find(library_, {"nvmlDeviceGetProcessUtilization"});
  gpm_support.find(library_, {"nvmlGpmQueryDeviceSupport"});
  gpm_sample_create.find(library_, {"nvmlGpmSampleAlloc"});
  gpm_sample.find(library_, {"nvmlGpmSampleGet"});
  gpm_metrics.find(library_, {"nvmlGpmMetricsGet"});
  event_set_create.find(library_, {"nvmlEventSetCreate"});
  register_events.find(library_, {"nvmlDeviceRegisterEvents"});
  wait_for_event.find(library_, {"nvmlEventSetWait_v2"});
}

}  // namespace reveal
