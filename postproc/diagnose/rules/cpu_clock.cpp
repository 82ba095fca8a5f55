// Configuration of the node's clocks: time that is slow to read, and a frequency that is held down.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

Finding of_setting(const RuleContext& context, const std::string& key, const std::string& value) {
  Finding finding = context.finding();
  finding.severity = Severity::notice;
  finding.confidence = Confidence::certain;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.evidence.push_back({.metric = key,
                              .instance = value,
                              .node = context.telemetry.node,
                              .feature = "value",
                              .span = finding.intervals.front(),
                              .detectors = {"snapshot"}});
  return finding;
}

/// Reading these costs a microsecond and more, in the kernel; reading tsc, kvm-clock or arch_sys_counter does not.
std::vector<Finding> check_source(const RuleContext& context) {
  const std::string source = context.snapshot_value("kernel.clocksource");
  if (source.empty()) throw Unavailable("not measured: kernel.clocksource");
  constexpr std::array<std::string_view, 4> kSlow = {"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
  if (std::find(kSlow.begin(), kSlow.end(), source) == kSlow.end()) return {};
  Finding finding = of_setting(context, "kernel.clocksource", source);
  finding.impact.how = "not known: how often the job asks for the time was not measured";
  finding.sentence = fmt::format(
      "{} keeps its time by {} (available: {}): each reading of the clock is a call to the kernel and to a device.",
      context.telemetry.node, source, context.snapshot_value("kernel.clocksources"));
  return {finding};
}

/// With the drivers of Intel and AMD in active mode "powersave" is a dynamic governor, not a slow one.
bool holds_down(std::string_view driver, std::string_view governor) {
  if (governor.starts_with("powersave")) return driver != "intel_pstate" && driver != "amd-pstate-epp";
  return governor.starts_with("conservative");
}

std::vector<Finding> check_frequency(const RuleContext& context) {
  const std::string governor = context.snapshot_value("cpu.governor");
  const std::string driver = context.snapshot_value("cpu.frequency_driver");
  const std::string boost = context.snapshot_value("cpu.boost");
  if (governor.empty()) throw Unavailable("not measured: cpu.governor (no cpufreq driver, or a virtual machine)");
  const bool slow = holds_down(driver, governor);
  if (!slow && boost != "0") return {};
  Finding finding = slow ? of_setting(context, "cpu.governor", governor) : of_setting(context, "cpu.boost", boost);
  finding.impact.how = "not known: only a run with another setting shows it";
  finding.sentence =
      slow ? fmt::format("The cpus of {} are kept at low clocks: governor {} of driver {}.", context.telemetry.node,
                         governor, driver)
           : fmt::format("The cpus of {} may not run above their base clock: boost is off.", context.telemetry.node);
  finding.runner_up = {"cpu.thermal_throttle", "heat: it is counted, and reported apart"};
  return {finding};
}

const RegisteredRule kSource{{
    .id = "cpu.clocksource_not_tsc",
    .title = "The node keeps its time by a slow clock",
    .looks_for = "A clock source that only the kernel can read: kernel.clocksource.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::cpu,
    .order = 92,
    .proof = Proof::test_double,
    .checks_node = true,
    .user_remedy = {"cat /sys/devices/system/clocksource/clocksource0/current_clocksource   # on each node"},
    .advice = {"Tell the administrators; programs that ask for the time often (traces, profilers, logs) suffer most."},
    .admin_remedy = {"journalctl -k | grep -i clocksource   # why the kernel gave tsc up",
                     "reboot   # if it comes back: firmware and microcode updates"},
    .verify = "current_clocksource is tsc on all nodes",
    .sources = {"https://docs.kernel.org/timers/timekeeping.html"},
    .check = check_source,
}};

const RegisteredRule kFrequency{{
    .id = "cpu.governor_powersave",
    .title = "The frequency policy holds the cpus' clocks down",
    .looks_for = "A governor or a boost setting that keeps clocks low: cpu.governor, cpu.frequency_driver, cpu.boost.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::cpu,
    .order = 91,
    .look_alikes = "cpu.thermal_throttle",
    .proof = Proof::test_double,
    .checks_node = true,
    .user_remedy = {{"srun --cpu-freq=performance {command} ...   # where the site allows it", "job"}},
    .admin_remedy = {"cpupower frequency-set -g performance",
                     "echo 1 > /sys/devices/system/cpu/cpufreq/boost   # where the driver has the file"},
    .verify = "scaling_governor and boost are the same on all nodes, and the job runs faster",
    .sources = {"https://docs.kernel.org/admin-guide/pm/cpufreq.html",
                "https://docs.kernel.org/admin-guide/pm/intel_pstate.html"},
    .check = check_frequency,
}};

}  // namespace
}  // namespace reveal
