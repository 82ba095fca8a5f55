// The hardware events that are counted, per processor design: one row each. libpfm's encoding is taken where it is
// installed, the code in the row where it is not; a test compares both with the vendors' tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/pmu/microarchitecture.h"
#include "core/pmu/perf_event.h"

namespace reveal {

/// The signals that are searched for, independent of their name in a design. The order is that of kPmuSignals.
enum class PmuSignal : std::uint8_t {
  cycles,
  instructions,
  reference_cycles,
  branches,
  branch_misses,
  llc_references,
  llc_misses,
  l3_stalls,
  remote_dram,
  loads,
  stores,
  frontend_stalls,
  backend_stalls,
};
inline constexpr std::size_t kPmuSignals = 13;

/// "pmu.cycles"
[[nodiscard]] std::string_view metric_of(PmuSignal);

/// Designs that share a row.
using Designs = std::uint32_t;
[[nodiscard]] constexpr Designs designs(std::initializer_list<Microarchitecture> list) {
  Designs set = 0;
  for (const Microarchitecture each : list) set |= Designs{1} << static_cast<unsigned>(each);
  return set;
}

struct HardwareEvent {
  Designs designs;
  PmuSignal signal;
  /// Events of one group are counted at the same time. At most three of a group need a general counter: on a core with
  /// four of them, of which the kernel's watchdog may have one, a larger group would never run.
  /// https://docs.kernel.org/admin-guide/lockup-watchdogs.html
  int group;
  bool fixed;               // has a counter of its own
  std::string_view libpfm;  // without the PMU; "": libpfm cannot encode it on x86
  PerfEvent code;
};

[[nodiscard]] std::span<const HardwareEvent> hardware_events();
/// The events of one design, or the kernel's generic events if the design is unknown; by group.
[[nodiscard]] std::vector<HardwareEvent> hardware_events_of(Microarchitecture);

}  // namespace reveal
