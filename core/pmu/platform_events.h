// Events that the kernel's own PMUs count for the whole node, found in sysfs: memory traffic, energy, sleep states,
// real clocks. Finding and encoding them needs no privilege and works on a copy of another host's files; counting does
// not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/pmu/event_source.h"
#include "core/pmu/microarchitecture.h"
#include "core/sampler/trace_sink.h"

namespace reveal {

/// The datasets they are stored in; PlatformEvent::family is a place here.
[[nodiscard]] std::span<const FamilyTable> platform_families();

struct PlatformEvent {
  std::string_view metric;
  std::size_t family = 0;
  std::string instance;  // "package0", "cpu3"
  std::string source;    // "uncore_imc_2"
  int cpu = 0;           // on which it is counted
  PerfEvent event;
  double factor = 1;  // one count in the family's unit
};

/// All events of the table that this host has; events of one source and cpu are adjacent, in the order of the table.
[[nodiscard]] std::vector<PlatformEvent> platform_events(KernelTree& fs, const std::vector<int>& cpus_online);

}  // namespace reveal
