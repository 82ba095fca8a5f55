// The design of this processor: the names and codes of events depend on it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

enum class Microarchitecture : std::uint8_t {
  unknown,  // counted by the kernel's own generic events
  skylake_sp,
  cascade_lake,
  ice_lake_sp,
  sapphire_rapids,
  emerald_rapids,
  zen2,
  zen3,
  zen4,
  neoverse_n1,
  neoverse_v1,
  neoverse_n2,
  neoverse_v2,
};

struct MicroarchitectureName {
  Microarchitecture is;
  std::string_view name;
  std::string_view libpfm;  // its PMU there
};

[[nodiscard]] std::span<const MicroarchitectureName> microarchitectures();
[[nodiscard]] const MicroarchitectureName& name_of(Microarchitecture);

/// Reads the text of /proc/cpuinfo: CPUID family, model and stepping, or implementer and part of Arm's MIDR.
[[nodiscard]] Microarchitecture microarchitecture_of(std::string_view cpuinfo);
[[nodiscard]] Microarchitecture microarchitecture_of(KernelTree& fs);

}  // namespace reveal
