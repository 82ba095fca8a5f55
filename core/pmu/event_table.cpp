#include "core/pmu/event_table.h"

#include <linux/perf_event.h>

#include <algorithm>
#include <array>

namespace reveal {
namespace {

using enum Microarchitecture;
using enum PmuSignal;

constexpr std::array<std::string_view, kPmuSignals> kMetrics = {
    "pmu.cycles",         "pmu.instructions",    "pmu.reference_cycles", "pmu.branches",    "pmu.branch_misses",
    "pmu.llc_references", "pmu.llc_misses",      "pmu.l3_stalls",        "pmu.remote_dram", "pmu.loads",
    "pmu.stores",         "pmu.frontend_stalls", "pmu.backend_stalls",
};

constexpr Designs kIntel = designs({skylake_sp, cascade_lake, ice_lake_sp, sapphire_rapids, emerald_rapids});
constexpr Designs kBeforeSapphire = designs({skylake_sp, cascade_lake, ice_lake_sp});
constexpr Designs kSapphire = designs({sapphire_rapids, emerald_rapids});
constexpr Designs kZen = designs({zen2, zen3, zen4});
constexpr Designs kZen2 = designs({zen2});
constexpr Designs kZen3 = designs({zen3});
constexpr Designs kZen4 = designs({zen4});
constexpr Designs kArm = designs({neoverse_n1, neoverse_v1, neoverse_n2, neoverse_v2});
constexpr Designs kLaterArm = designs({neoverse_v1, neoverse_n2, neoverse_v2});
constexpr Designs kUnknown = designs({unknown});

constexpr PerfEvent raw(std::uint64_t config) {
  return {.type = PERF_TYPE_RAW, .config = config};
}
constexpr PerfEvent generic(std::uint64_t config) {
  return {.type = PERF_TYPE_HARDWARE, .config = config};
}

// Intel: event, unit mask << 8, counter mask << 24. AMD: the same, and bits 8-11 of the event << 32. Arm: the event.
constexpr HardwareEvent kEvents[] = {
    {kIntel, cycles, 0, true, "CPU_CLK_UNHALTED:THREAD_P", raw(0x3c)},
    {kIntel, instructions, 0, true, "INST_RETIRED:ANY_P", raw(0xc0)},
    {kIntel, reference_cycles, 0, true, "UNHALTED_REFERENCE_CYCLES", raw(0x300)},
    {kIntel, branches, 0, false, "BR_INST_RETIRED:ALL_BRANCHES", raw(0xc4)},
    {kIntel, branch_misses, 0, false, "BR_MISP_RETIRED:ALL_BRANCHES", raw(0xc5)},
    {kBeforeSapphire, l3_stalls, 0, false, "CYCLE_ACTIVITY:STALLS_L3_MISS", raw(0x60006a3)},
    {kSapphire, l3_stalls, 0, false, "MEMORY_ACTIVITY:STALLS_L3_MISS", raw(0x9000947)},
    {kIntel, llc_references, 1, false, "LONGEST_LAT_CACHE:REFERENCE", raw(0x4f2e)},
    {kIntel, llc_misses, 1, false, "LONGEST_LAT_CACHE:MISS", raw(0x412e)},
    {kIntel, remote_dram, 1, false, "MEM_LOAD_L3_MISS_RETIRED:REMOTE_DRAM", raw(0x2d3)},
    {kIntel, loads, 2, false, "MEM_INST_RETIRED:ALL_LOADS", raw(0x81d0)},
    {kIntel, stores, 2, false, "MEM_INST_RETIRED:ALL_STORES", raw(0x82d0)},
    {kIntel, backend_stalls, 2, false, "CYCLE_ACTIVITY:STALLS_TOTAL", raw(0x40004a3)},

    {kZen, cycles, 0, false, "CYCLES_NOT_IN_HALT", raw(0x76)},
    {kZen, instructions, 0, false, "RETIRED_INSTRUCTIONS", raw(0xc0)},
    // Until Zen 4 nothing counts the cycles that wait for memory: those in which the load queue is full come nearest.
    {designs({zen2, zen3}), backend_stalls, 0, false, "DISPATCH_RESOURCE_STALL_CYCLES_1:LOAD_QUEUE_RSRC_STALL",
     raw(0x2ae)},
    {kZen4, backend_stalls, 0, false, "CYCLES_NO_RETIRE:NOT_COMPLETE_MISSING_LOAD", raw(0xa2d6)},
    {kZen, branches, 1, false, "RETIRED_BRANCH_INSTRUCTIONS", raw(0xc2)},
    {kZen, branch_misses, 1, false, "RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED", raw(0xc3)},
    // Fills from beyond the core complex's own L3. Only the amd_l3 PMU counts accesses of each L3.
    {kZen2, llc_misses, 1, false,
     "DATA_CACHE_REFILLS_FROM_SYSTEM:LS_MABRESP_LCL_DRAM:LS_MABRESP_RMT_CACHE:LS_MABRESP_RMT_DRAM", raw(0x5843)},
    {kZen3, llc_misses, 1, false,
     "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:EXT_CACHE_LCL:MEM_IO_LCL:EXT_CACHE_RMT:MEM_IO_RMT", raw(0x5c43)},
    {kZen4, llc_misses, 1, false,
     "DEMAND_DATA_CACHE_FILLS_FROM_SYSTEM:NEAR_CACHE_NEAR_FAR:DRAM_IO_NEAR:FAR_CACHE_NEAR_FAR:DRAM_IO_FAR",
     raw(0x5c43)},
    {kZen2, remote_dram, 2, false, "DATA_CACHE_REFILLS_FROM_SYSTEM:LS_MABRESP_RMT_DRAM", raw(0x4043)},
    {kZen3, remote_dram, 2, false, "ANY_DATA_CACHE_FILLS_FROM_SYSTEM:MEM_IO_RMT", raw(0x4044)},
    {kZen4, remote_dram, 2, false, "ANY_DATA_CACHE_FILLS_FROM_SYSTEM:DRAM_IO_FAR", raw(0x4044)},
    {kZen, loads, 2, false, "LS_DISPATCH:LD_DISPATCH", raw(0x129)},
    {kZen, stores, 2, false, "LS_DISPATCH:STORE_DISPATCH", raw(0x229)},

    {kArm, cycles, 0, true, "", raw(0x11)},
    {kArm, instructions, 0, false, "", raw(0x08)},
    {kArm, frontend_stalls, 0, false, "", raw(0x23)},
    {kArm, backend_stalls, 0, false, "", raw(0x24)},
    {kArm, branches, 1, false, "", raw(0x21)},
    {kArm, branch_misses, 1, false, "", raw(0x22)},
    {kArm, remote_dram, 1, false, "", raw(0x31)},  // REMOTE_ACCESS: of another socket, its caches included
    {kArm, llc_references, 2, false, "", raw(0x36)},
    {kArm, llc_misses, 2, false, "", raw(0x37)},
    {kLaterArm, l3_stalls, 2, false, "", raw(0x4005)},  // STALL_BACKEND_MEM
    {kArm, loads, 3, false, "", raw(0x66)},
    {kArm, stores, 3, false, "", raw(0x67)},

    {kUnknown, cycles, 0, false, "", generic(PERF_COUNT_HW_CPU_CYCLES)},
    {kUnknown, instructions, 0, false, "", generic(PERF_COUNT_HW_INSTRUCTIONS)},
    {kUnknown, branch_misses, 0, false, "", generic(PERF_COUNT_HW_BRANCH_MISSES)},
    {kUnknown, branches, 1, false, "", generic(PERF_COUNT_HW_BRANCH_INSTRUCTIONS)},
    {kUnknown, llc_references, 1, false, "", generic(PERF_COUNT_HW_CACHE_REFERENCES)},
    {kUnknown, llc_misses, 1, false, "", generic(PERF_COUNT_HW_CACHE_MISSES)},
};

}  // namespace

std::string_view metric_of(PmuSignal signal) {
  return kMetrics[static_cast<std::size_t>(signal)];
}

std::span<const HardwareEvent> hardware_events() {
  return kEvents;
}

std::vector<HardwareEvent> hardware_events_of(Microarchitecture microarchitecture) {
  std::vector<HardwareEvent> events;
  for (const HardwareEvent& event : kEvents) {
    if ((event.designs & designs({microarchitecture})) != 0) events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const HardwareEvent& a, const HardwareEvent& b) { return a.group < b.group; });
  return events;
}

}  // namespace reveal
