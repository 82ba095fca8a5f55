// NVML, loaded at run time. A call that this version of the library lacks answers as one that the device does not
// support. Any call may hang or take the process along: only a worker process makes them.
#pragma once

#include <string>
#include <string_view>

#include "core/gpu/nvml_abi.h"

namespace reveal {

class NvmlLibrary {
 public:
  /// Throws Unavailable("why").
  explicit NvmlLibrary(const std::string& file);
  ~NvmlLibrary();  // shut down: no handle of the driver stays open
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  template <typename... Parameters>
  class Call {
   public:
    /// By the first of these names that the library has.
    void find(void* library, std::initializer_list<const char*> names);
    int operator()(Parameters... arguments) const {
      return function_ == nullptr ? nvml::kNotSupported : function_(arguments...);
    }
    /// The name that the library has; "" if it lacks the call.
    [[nodiscard]] std::string_view name() const { return name_; }

   private:
    std::string_view name_;
    int (*function_)(Parameters...) = nullptr;
  };

  Call<char*, unsigned> driver_version;
  Call<unsigned*> count;
  Call<unsigned, nvml::Device*> device_by_index;
  Call<const char*, nvml::Device*> device_by_address;
  Call<nvml::Device, char*, unsigned> name, uuid;
  Call<nvml::Device, unsigned*> minor, power, power_limit, power_limit_default, pcie_generation, pcie_width,
      pcie_generation_most, pcie_width_most, pcie_replays;
  Call<nvml::Device, nvml::PciInfo*> pci;
  Call<nvml::Device, nvml::Utilization*> utilization;
  Call<nvml::Device, int, unsigned long long, int*, unsigned*, nvml::Sample*> samples;
  Call<nvml::Device, nvml::Memory*> memory;
  Call<nvml::Device, int, unsigned*> clock, clock_most, clock_of_applications, clock_of_applications_default;
  Call<nvml::Device, unsigned long long*> reasons, energy;
  Call<nvml::Device, int, unsigned*> temperature, threshold;
  Call<nvml::Device, unsigned*, unsigned*> encoder, decoder, mig_mode;
  Call<nvml::Device, int*> persistence;
  Call<nvml::Device, int*, int*> ecc_mode;
  Call<nvml::Device, int, int, unsigned long long*> ecc_errors;
  Call<nvml::Device, int, int, int, unsigned long long*> ecc_errors_at;
  Call<nvml::Device, unsigned*, unsigned*, unsigned*, unsigned*> remapped_rows;
  Call<nvml::Device, int, nvml::FieldValue*> fields;
  Call<nvml::Device, unsigned, int*> link_state;
  Call<nvml::Device, unsigned, int, unsigned long long*> link_errors;
  Call<nvml::Device, unsigned*, nvml::ProcessInfo*> processes;
  Call<nvml::Device, nvml::ProcessUtilization*, unsigned*, unsigned long long> process_utilization;
  Call<nvml::Device, nvml::GpmSupport*> gpm_support;
  Call<nvml::GpmSample*> gpm_sample_create;
  Call<nvml::Device, nvml::GpmSample> gpm_sample;
  Call<nvml::GpmMetrics*> gpm_metrics;
  Call<nvml::EventSet*> event_set_create;
  Call<nvml::Device, unsigned long long, nvml::EventSet> register_events;
  Call<nvml::EventSet, nvml::EventData*, unsigned> wait_for_event;

 private:
  void find_calls();

  void* library_ = nullptr;
  Call<> shutdown_;
};

}  // namespace reveal
