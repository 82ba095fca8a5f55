// The only process of the guest of arm64_counters.sh: counts a loop of known length with the collector's counters, the
// table of the guest's processor included. Prints one line per counter and at the end "result: ok" or "result: failed",
// and turns the machine off.
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/pmu/counter_group.h"
#include "core/pmu/event_source.h"
#include "core/pmu/event_table.h"
#include "core/pmu/implemented_events.h"
#include "core/pmu/microarchitecture.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {
namespace {

constexpr std::uint64_t kRounds = 20'000'000;
constexpr std::int64_t kInstructions = 2 * kRounds;

void run_loop() {
  std::uint64_t rounds = kRounds;
  asm volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(rounds) : : "cc");
}

bool failed = false;

void expect(bool holds, const char* what) {
  if (holds) return;
  failed = true;
  std::printf("FAILED: %s\n", what);
}

/// Counts the loop in one scope; by signal.
std::map<PmuSignal, std::int64_t> count(const std::vector<HardwareEvent>& table, const PerfTarget& target,
                                        bool user_only, const char* scope) {
  std::vector<CounterGroup> groups;
  std::vector<std::vector<PmuSignal>> signals;
  for (const HardwareEvent& event : table) {
    if (static_cast<std::size_t>(event.group) >= groups.size()) {
      groups.emplace_back(target);
      signals.emplace_back();
    }
    const int error = groups.back().add(open_perf_event, event.code, user_only);
    if (error == 0) {
      signals.back().push_back(event.signal);
    } else {
      std::printf("%s %s: %s\n", scope, std::string(metric_of(event.signal)).c_str(),
                  why_not_counted(error, "").c_str());
    }
  }
  for (const CounterGroup& group : groups) group.start();
  run_loop();
  std::map<PmuSignal, std::int64_t> counted;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    expect(groups[i].read(), "a group can be read");
    ScaledSums sums(groups[i].events());
    sums.follow(std::span(&groups[i], 1));
    for (std::size_t e = 0; e < signals[i].size(); ++e) {
      counted[signals[i][e]] = sums.total(e) == kMissing ? -1 : sums.total(e) - 1;
      std::printf("%s %s %lld, counted %.0f %% of the time\n", scope, std::string(metric_of(signals[i][e])).c_str(),
                  static_cast<long long>(counted[signals[i][e]]), 100 * sums.counted_share());
    }
  }
  return counted;
}

void run() {
  KernelTree fs;
  std::printf("processor: %s\n", std::string(name_of(microarchitecture_of(fs)).name).c_str());
  expect(microarchitecture_of(fs) == Microarchitecture::neoverse_n1, "the processor is found by its MIDR");
  for (const std::string& name : event_source_names(fs, "armv8")) {
    const auto source = EventSource::look(fs, name);
    const auto cycles = source ? source->event(fs, "cpu_cycles") : std::nullopt;
    expect(cycles && cycles->config == 0x11, "sysfs encodes cpu_cycles as the table does");
    const auto instructions = source ? source->event(fs, "inst_retired") : std::nullopt;
    expect(instructions && instructions->config == 0x08, "sysfs encodes inst_retired as the table does");
    std::printf("pmu: %s, type %u\n", name.c_str(), source ? source->type() : 0);
  }
  std::vector<HardwareEvent> table = hardware_events_of(microarchitecture_of(fs));
  // All groups at once need more counters than there are: the kernel takes them in turn, and a count scaled up from a
  // part of the time is near the truth.
  auto together = count(table, {.task = ::getpid(), .with_children = true}, true, "task, in turn,");
  expect(std::llabs(together[PmuSignal::instructions] - kInstructions) < kInstructions / 20, "scaled within 5 %");
  for (const std::string_view metric : drop_unimplemented(fs, table)) {
    std::printf("this core does not have: %s\n", std::string(metric).c_str());
  }
  std::erase_if(table, [](const HardwareEvent& event) { return event.group != 0; });
  auto own = count(table, {.task = ::getpid(), .with_children = true}, true, "task");
  expect(own[PmuSignal::instructions] >= kInstructions, "all instructions of the loop are counted");
  expect(own[PmuSignal::instructions] <= kInstructions + kInstructions / 100, "and no more than those around it");
  expect(own[PmuSignal::cycles] >= kInstructions, "cycles are counted: one for each, with -icount shift=0");
  auto cpu = count(table, {.cpu = 0}, false, "cpu");
  expect(cpu[PmuSignal::instructions] >= kInstructions, "the loop is counted on its cpu");
  expect(cpu[PmuSignal::cycles] > 0, "cycles are counted on the cpu");
}

}  // namespace
}  // namespace reveal

int main() {
  ::mkdir("/proc", 0755);
  ::mkdir("/sys", 0755);
  ::mount("proc", "/proc", "proc", 0, nullptr);
  ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
  try {
    reveal::run();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    reveal::failed = true;
  }
  std::printf("result: %s\n", reveal::failed ? "failed" : "ok");
  std::fflush(stdout);
  ::sync();
  ::reboot(RB_POWER_OFF);
}
