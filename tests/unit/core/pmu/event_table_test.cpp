// The table of hardware events against the vendors' tables, and against libpfm for processors that are not here.
#include "core/pmu/event_table.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstdlib>
#include <map>
#include <set>

#include "core/pmu/libpfm.h"

namespace reveal::tests::event_table_test {
namespace {

using enum Microarchitecture;
using enum PmuSignal;

struct Published {
  Microarchitecture design;
  PmuSignal signal;
  unsigned event, umask, cmask;
  std::string_view name;
};

// Intel: https://github.com/intel/perfmon, {SKX,CLX,ICX,SPR,EMR}/events/*_core.json, EventCode, UMask, CounterMask.
// AMD: Processor Programming References, "PMCx" events: 55803 (17h 31h), 55898 (19h 01h), 55901 (19h 11h).
// Arm: Technical Reference Manuals of the cores, "PMU events"; the numbers are those of the Arm ARM's common events.
constexpr Published kPublished[] = {
    {skylake_sp, branches, 0xc4, 0x00, 0, "BR_INST_RETIRED.ALL_BRANCHES"},
    {skylake_sp, branch_misses, 0xc5, 0x00, 0, "BR_MISP_RETIRED.ALL_BRANCHES"},
    {skylake_sp, l3_stalls, 0xa3, 0x06, 6, "CYCLE_ACTIVITY.STALLS_L3_MISS"},
    {skylake_sp, llc_references, 0x2e, 0x4f, 0, "LONGEST_LAT_CACHE.REFERENCE"},
    {skylake_sp, llc_misses, 0x2e, 0x41, 0, "LONGEST_LAT_CACHE.MISS"},
    {skylake_sp, remote_dram, 0xd3, 0x02, 0, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM"},
    {skylake_sp, loads, 0xd0, 0x81, 0, "MEM_INST_RETIRED.ALL_LOADS"},
    {skylake_sp, stores, 0xd0, 0x82, 0, "MEM_INST_RETIRED.ALL_STORES"},
    {skylake_sp, backend_stalls, 0xa3, 0x04, 4, "CYCLE_ACTIVITY.STALLS_TOTAL"},
    {cascade_lake, l3_stalls, 0xa3, 0x06, 6, "CYCLE_ACTIVITY.STALLS_L3_MISS"},
    {cascade_lake, remote_dram, 0xd3, 0x02, 0, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM"},
    {ice_lake_sp, cycles, 0x3c, 0x00, 0, "CPU_CLK_UNHALTED.THREAD_P"},
    {ice_lake_sp, instructions, 0xc0, 0x00, 0, "INST_RETIRED.ANY_P"},
    {ice_lake_sp, l3_stalls, 0xa3, 0x06, 6, "CYCLE_ACTIVITY.STALLS_L3_MISS"},
    {ice_lake_sp, llc_misses, 0x2e, 0x41, 0, "LONGEST_LAT_CACHE.MISS"},
    {ice_lake_sp, remote_dram, 0xd3, 0x02, 0, "MEM_LOAD_L3_MISS_RETIRED.REMOTE_DRAM"},
    {sapphire_rapids, l3_stalls, 0x47, 0x09, 9, "MEMORY_ACTIVITY.STALLS_L3_MISS"},
    {sapphire_rapids, llc_misses, 0x2e, 0x41, 0, "LONGEST_LAT_CACHE.MISS"},
    {sapphire_rapids, loads, 0xd0, 0x81, 0, "MEM_INST_RETIRED.ALL_LOADS"},
    {emerald_rapids, l3_stalls, 0x47, 0x09, 9, "MEMORY_ACTIVITY.STALLS_L3_MISS"},
    {emerald_rapids, branch_misses, 0xc5, 0x00, 0, "BR_MISP_RETIRED.ALL_BRANCHES"},
    {zen2, cycles, 0x76, 0x00, 0, "PMCx076 Cycles not in Halt"},
    {zen2, instructions, 0xc0, 0x00, 0, "PMCx0C0 Retired Instructions"},
    {zen2, branches, 0xc2, 0x00, 0, "PMCx0C2 Retired Branch Instructions"},
    {zen2, branch_misses, 0xc3, 0x00, 0, "PMCx0C3 Retired Branch Instructions Mispredicted"},
    {zen2, backend_stalls, 0xae, 0x02, 0, "PMCx0AE Dispatch Resource Stall Cycles 1, load queue"},
    {zen2, llc_misses, 0x43, 0x58, 0,
     "PMCx043 Data Cache Refills from System: local DRAM 08, remote cache 10, DRAM 40"},
    {zen2, remote_dram, 0x43, 0x40, 0, "PMCx043 Data Cache Refills from System, remote DRAM"},
    {zen2, loads, 0x29, 0x01, 0, "PMCx029 LS Dispatch, loads"},
    {zen2, stores, 0x29, 0x02, 0, "PMCx029 LS Dispatch, stores"},
    {zen3, llc_misses, 0x43, 0x5c, 0, "PMCx043 Demand Data Cache Fills: other CCX 04, DRAM 08, remote 10 and 40"},
    {zen3, remote_dram, 0x44, 0x40, 0, "PMCx044 Any Data Cache Fills, remote DRAM or IO"},
    {zen3, backend_stalls, 0xae, 0x02, 0, "PMCx0AE Dispatch Resource Stall Cycles 1, load queue"},
    {zen4, llc_misses, 0x43, 0x5c, 0, "PMCx043 Demand Data Cache Fills: near cache 04, near DRAM 08, far 10 and 40"},
    {zen4, remote_dram, 0x44, 0x40, 0, "PMCx044 Any Data Cache Fills, far DRAM or IO"},
    {zen4, backend_stalls, 0xd6, 0xa2, 0, "PMCx0D6 Cycles with no retire, not complete, missing load"},
    {neoverse_n1, cycles, 0x11, 0, 0, "CPU_CYCLES"},
    {neoverse_n1, instructions, 0x08, 0, 0, "INST_RETIRED"},
    {neoverse_n1, branches, 0x21, 0, 0, "BR_RETIRED"},
    {neoverse_n1, branch_misses, 0x22, 0, 0, "BR_MIS_PRED_RETIRED"},
    {neoverse_n1, frontend_stalls, 0x23, 0, 0, "STALL_FRONTEND"},
    {neoverse_n1, backend_stalls, 0x24, 0, 0, "STALL_BACKEND"},
    {neoverse_n1, remote_dram, 0x31, 0, 0, "REMOTE_ACCESS"},
    {neoverse_n1, llc_references, 0x36, 0, 0, "LL_CACHE_RD"},
    {neoverse_n1, llc_misses, 0x37, 0, 0, "LL_CACHE_MISS_RD"},
    {neoverse_n1, loads, 0x66, 0, 0, "MEM_ACCESS_RD"},
    {neoverse_n1, stores, 0x67, 0, 0, "MEM_ACCESS_WR"},
    {neoverse_v1, instructions, 0x08, 0, 0, "INST_RETIRED"},
    {neoverse_v1, llc_misses, 0x37, 0, 0, "LL_CACHE_MISS_RD"},
    {neoverse_n2, cycles, 0x11, 0, 0, "CPU_CYCLES"},
    {neoverse_v2, branch_misses, 0x22, 0, 0, "BR_MIS_PRED_RETIRED"},
};
// 0x4005 STALL_BACKEND_MEM does not fit "event and unit mask" of eight bits each.
constexpr Microarchitecture kCountStallsForMemory[] = {neoverse_v1, neoverse_n2, neoverse_v2};

const HardwareEvent* find(const std::vector<HardwareEvent>& events, PmuSignal signal) {
  for (const HardwareEvent& event : events) {
    if (event.signal == signal) return &event;
  }
  return nullptr;
}

TEST(HardwareEvents, AreEncodedAsTheVendorsPublish) {
  for (const Published& row : kPublished) {
    const std::vector<HardwareEvent> events = hardware_events_of(row.design);
    const HardwareEvent* event = find(events, row.signal);
    ASSERT_NE(event, nullptr) << name_of(row.design).name << ' ' << row.name;
    EXPECT_EQ(event->code.type, PERF_TYPE_RAW);
    EXPECT_EQ(event->code.config, row.event | row.umask << 8U | row.cmask << 24U)
        << name_of(row.design).name << ' ' << row.name;
  }
  for (const Microarchitecture design : kCountStallsForMemory) {
    const std::vector<HardwareEvent> events = hardware_events_of(design);
    ASSERT_NE(find(events, l3_stalls), nullptr);
    EXPECT_EQ(find(events, l3_stalls)->code.config, 0x4005U);
  }
}

TEST(HardwareEvents, AreEncodedAsLibpfmEncodesThem) {
  ::setenv("LIBPFM_ENCODE_INACTIVE", "1", 1);
  const Libpfm libpfm;
  if (!libpfm.here()) GTEST_SKIP() << "libpfm.so.4 is not installed";
#ifndef __x86_64__
  GTEST_SKIP() << "libpfm knows the events of its own architecture, and the rows named after it are x86-64's";
#endif
  int compared = 0;
  for (const MicroarchitectureName& design : microarchitectures()) {
    for (const HardwareEvent& event : hardware_events_of(design.is)) {
      if (event.libpfm.empty()) continue;
      const std::string name = std::string(design.libpfm) + "::" + std::string(event.libpfm);
      const auto code = libpfm.encode(name);
      // Its table for Ice Lake lacks this one event.
      if (!code && design.is == ice_lake_sp && event.signal == llc_references) continue;
      ASSERT_TRUE(code) << name;
      EXPECT_EQ(code->type, event.code.type) << name;
      EXPECT_EQ(code->config, event.code.config) << name;
      EXPECT_EQ(code->config1, event.code.config1) << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 80);
  EXPECT_FALSE(libpfm.encode("skx::NO_SUCH_EVENT"));
}

TEST(HardwareEvents, FitTogetherOnACoreWithFourCountersOfWhichTheWatchdogHasOne) {
  for (const MicroarchitectureName& design : microarchitectures()) {
    std::map<int, int> general;
    std::set<PmuSignal> signals;
    for (const HardwareEvent& event : hardware_events_of(design.is)) {
      general[event.group] += event.fixed ? 0 : 1;
      EXPECT_TRUE(signals.insert(event.signal).second)
          << design.name << " has two rows for " << metric_of(event.signal);
    }
    EXPECT_TRUE(signals.contains(cycles) && signals.contains(instructions)) << design.name;
    for (const auto& [group, count] : general) EXPECT_LE(count, 3) << design.name << " group " << group;
  }
}

TEST(Microarchitecture, IsFoundFromFamilyModelAndStepping) {
  const auto x86 = [](std::string_view vendor, int family, int model, int stepping) {
    return microarchitecture_of("processor\t: 0\nvendor_id\t: " + std::string(vendor) +
                                "\ncpu family\t: " + std::to_string(family) + "\nmodel\t\t: " + std::to_string(model) +
                                "\nmodel name\t: Some Processor\nstepping\t: " + std::to_string(stepping) + "\n");
  };
  EXPECT_EQ(x86("GenuineIntel", 6, 85, 4), skylake_sp);
  EXPECT_EQ(x86("GenuineIntel", 6, 85, 7), cascade_lake);
  EXPECT_EQ(x86("GenuineIntel", 6, 106, 6), ice_lake_sp);
  EXPECT_EQ(x86("GenuineIntel", 6, 143, 8), sapphire_rapids);
  EXPECT_EQ(x86("GenuineIntel", 6, 207, 2), emerald_rapids);
  EXPECT_EQ(x86("GenuineIntel", 6, 167, 1), unknown);
  EXPECT_EQ(x86("AuthenticAMD", 23, 49, 0), zen2);    // Rome
  EXPECT_EQ(x86("AuthenticAMD", 23, 1, 2), unknown);  // Naples is Zen 1
  EXPECT_EQ(x86("AuthenticAMD", 25, 1, 1), zen3);     // Milan
  EXPECT_EQ(x86("AuthenticAMD", 25, 17, 1), zen4);    // Genoa
  EXPECT_EQ(x86("AuthenticAMD", 25, 160, 2), zen4);   // Bergamo
  EXPECT_EQ(x86("GenuineIntel", 25, 17, 1), unknown);
  EXPECT_EQ(microarchitecture_of(""), unknown);
}

TEST(Microarchitecture, IsFoundFromImplementerAndPart) {
  const auto arm = [](std::string_view implementer, std::string_view part) {
    return microarchitecture_of("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: " + std::string(implementer) +
                                "\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: " + std::string(part) + "\n");
  };
  EXPECT_EQ(arm("0x41", "0xd0c"), neoverse_n1);
  EXPECT_EQ(arm("0x41", "0xd40"), neoverse_v1);
  EXPECT_EQ(arm("0x41", "0xd49"), neoverse_n2);
  EXPECT_EQ(arm("0x41", "0xd4f"), neoverse_v2);
  EXPECT_EQ(arm("0x41", "0xd08"), unknown);  // Cortex-A72
  EXPECT_EQ(arm("0x48", "0xd0c"), unknown);  // another maker's number
}

}  // namespace
}  // namespace reveal::tests::event_table_test
