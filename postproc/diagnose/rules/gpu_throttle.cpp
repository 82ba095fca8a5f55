// Clocks of a GPU that something held down while it worked: heat, the board's protection, a power limit or a setting.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_throttle {
namespace {

constexpr std::string_view kHeat[] = {"gpu.reason_sw_thermal", "gpu.reason_hw_thermal"};
constexpr std::string_view kHardware[] = {"gpu.reason_power_brake", "gpu.reason_hw_slowdown"};
constexpr std::string_view kPower[] = {"gpu.reason_power_cap"};
constexpr std::string_view kSetting[] = {"gpu.reason_application_clocks"};

constexpr Threshold kMinShare{"min_share", 0.01, "ratio", "least share of the time a GPU worked"};
constexpr Threshold kSevereShare{"severe_share", 0.05, "ratio", "share from which it is a warning"};

std::string others(std::size_t count) {
  return count > 1 ? fmt::format(" {} more GPUs of the job had the same problem.", count - 1) : "";
}

std::vector<Finding> check_heat(const RuleContext& context) {
  auto held = held_back(context, kHeat);
  std::erase_if(held, [&](const HeldBack& one) {
    return one.share() < context.threshold("min_share") || one.seconds < context.threshold("min_seconds");
  });
  if (held.empty()) return {};
  const HeldBack& worst = held.front();
  Finding finding = held_back_finding(context, worst);
  finding.severity = worst.share() >= context.threshold("severe_share") ? Severity::warning : Severity::notice;
  const auto hot = gpu_series(context, "gpu.temperature", worst.gpu);
  const double degrees = mean_inside(hot, hot.empty() ? Interval{} : worst.at);
  const auto limit = gpu_number(context, worst.gpu, "slowdown_temperature");
  if (!std::isnan(degrees)) {
    finding.evidence.push_back(fact(context, "gpu.temperature", worst.gpu, "mean", degrees, limit, "Cel"));
  }
  finding.sentence = fmt::format("Heat lowered the clocks of {} on {} for {} of the {} it worked ({} %).{}",
                                 gpu_name(context, worst.gpu), context.telemetry.node, duration(worst.seconds),
                                 duration(worst.busy_seconds), number(100 * worst.share()), others(held.size()));
  finding.runner_up = {"gpu.power_cap", "a power limit: the driver has a separate reason for it"};
  return {finding};
}

std::vector<Finding> check_hardware(const RuleContext& context) {
  auto held = held_back(context, kHardware, "gpu.reason_hw_thermal");
  std::erase_if(held, [&](const HeldBack& one) { return one.longest < context.threshold("min_seconds"); });
  if (held.empty()) return {};
  const HeldBack& worst = held.front();
  Finding finding = held_back_finding(context, worst);
  finding.severity = Severity::warning;
  const bool brake = worst.metric == kHardware[0];
  finding.sentence = fmt::format("The hardware of {} on {} slowed itself down for {} of the {} it worked{}.{}",
                                 gpu_name(context, worst.gpu), context.telemetry.node, duration(worst.seconds),
                                 duration(worst.busy_seconds),
                                 brake ? ", because an external signal activated its power brake"
                                       : ", but not because of its temperature: check the power supply and the board",
                                 others(held.size()));
  finding.runner_up = {"gpu.thermal_throttle", "heat: moments with the hardware's thermal slowdown are left out"};
  return {finding};
}

/// Watts; what the GPU is made for, or what others of its kind in the job may take.
std::optional<double> usual_limit(const RuleContext& context, const std::string& gpu) {
  auto usual = gpu_number(context, gpu, "power_limit_default");
  const std::string kind = gpu_fact(context, gpu, "name");
  for (const std::string& other : gpus_measured(context)) {
    const auto limit = gpu_number(context, other, "power_limit");
    if (limit && !kind.empty() && gpu_fact(context, other, "name") == kind) usual = std::max(usual.value_or(0), *limit);
  }
  return usual;
}

std::vector<Finding> check_power(const RuleContext& context) {
  std::vector<Finding> findings;
  for (const HeldBack& held : held_back(context, kPower)) {
    const auto limit = gpu_number(context, held.gpu, "power_limit");
    const auto usual = usual_limit(context, held.gpu);
    // At the limit it is made for, a GPU under full load is always held back by it.
    if (!limit || !usual || *limit > *usual * (1 - context.threshold("min_below"))) continue;
    if (held.share() < context.threshold("min_share") || held.seconds < context.threshold("min_seconds")) continue;
    Finding finding = held_back_finding(context, held, {{"usual", fmt::format("{:.0f}", *usual)}});
    finding.severity = Severity::notice;  // a site may want it so, for all of its nodes
    finding.evidence.push_back(fact(context, "gpu.power_limit", held.gpu, "value", *limit, *usual, "W"));
    finding.sentence = fmt::format(
        "The power limit of {} on {} is {} W (usually {} W); it lowered the clocks in {} % of the time the GPU worked.",
        gpu_name(context, held.gpu), context.telemetry.node, number(*limit), number(*usual),
        number(100 * held.share()));
    finding.runner_up = {"gpu.hw_slowdown", "the board's own protection: the driver has a separate reason for it"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

/// MHz.
struct LockedClock {
  double at = 0;
  double possible = 0;
  std::string how;
};

std::vector<double> sorted_clocks(const RuleContext& context, const std::string& gpu) {
  constexpr double kWorks = 80;
  const auto clock = gpu_series(context, "gpu.sm_clock", gpu);
  const auto use = gpu_series(context, "gpu.utilization", gpu);
  std::vector<double> clocks;
  for (std::size_t t = 0; t < clock.size(); ++t) {
    if (use[t] >= kWorks && clock[t] > 0) clocks.push_back(clock[t] * 1e-6);
  }
  std::sort(clocks.begin(), clocks.end());
  return clocks;
}

bool something_else_held(const RuleContext& context, const std::string& gpu, double most_share) {
  constexpr std::string_view kOthers[] = {"gpu.reason_power_cap",   "gpu.reason_sw_thermal",  "gpu.reason_hw_thermal",
                                          "gpu.reason_hw_slowdown", "gpu.reason_power_brake", "gpu.reason_sync_boost"};
  for (const HeldBack& held : held_back(context, kOthers)) {
    if (held.gpu == gpu && held.share() > most_share) return true;
  }
  return false;
}

bool held_by_setting(const RuleContext& context, const std::string& gpu) {
  constexpr double kMostly = 0.5;
  const auto all = held_back(context, kSetting);
  return std::any_of(all.begin(), all.end(),
                     [&](const HeldBack& held) { return held.gpu == gpu && held.share() >= kMostly; });
}

std::optional<LockedClock> locked(const RuleContext& context, const std::string& gpu) {
  const auto set = gpu_number(context, gpu, "sm_clock_set");
  const auto usual = gpu_number(context, gpu, "sm_clock_default");
  const auto most = gpu_number(context, gpu, "sm_clock_most");
  const double below = 1 - context.threshold("min_below");
  const std::vector<double> clocks = sorted_clocks(context, gpu);
  if (context.seconds(clocks.size()) < context.threshold("min_seconds")) return std::nullopt;
  const double low = clocks[clocks.size() / 20];
  const double middle = clocks[clocks.size() / 2];
  const double high = clocks[clocks.size() - 1 - clocks.size() / 20];
  constexpr double kSame = 0.01;
  if (set && usual && *set < *usual * below && high <= *set * (1 + kSame)) {
    return LockedClock{high, *usual, "the application clock is set below its default"};
  }
  // A clock that never moves while the driver says that a setting holds it, unless it is the usual one of applications.
  // Without the driver's word it tells nothing: many cards never reach their highest clock.
  const bool flat = high - low <= kSame * middle;
  const bool is_usual = usual && middle >= *usual * (1 - kSame);
  if (!most || !flat || is_usual || middle >= *most * below || !held_by_setting(context, gpu)) return std::nullopt;
  if (something_else_held(context, gpu, kSame)) return std::nullopt;
  return LockedClock{middle, usual.value_or(*most),
                     "the driver reports that a setting fixed the clock, and the clock never changed"};
}

std::vector<Finding> check_locked(const RuleContext& context) {
  static_cast<void>(held_back(context, kSetting));  // without reasons nothing can be told apart
  std::vector<Finding> findings;
  for (const std::string& gpu : gpus_measured(context)) {
    const auto found = locked(context, gpu);
    if (!found) continue;
    Finding finding = context.finding(gpu_values(context, gpu));
    finding.severity = Severity::warning;
    finding.confidence = Confidence::likely;
    finding.instances = {gpu};
    finding.intervals = {context.span(0, context.telemetry.samples)};
    finding.impact.how = "not known: how much its work depends on the clock";
    finding.evidence.push_back(
        fact(context, "gpu.sm_clock", gpu, "while it worked", found->at * 1e6, found->possible * 1e6, "Hz"));
    finding.sentence =
        fmt::format("{} on {} worked at {} MHz, although {} MHz are possible: {}.", gpu_name(context, gpu),
                    context.telemetry.node, number(found->at), number(found->possible), found->how);
    finding.runner_up = {"gpu.power_cap", "the power limit did not lower its clock"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kThermal{{
    .id = "gpu.thermal_throttle",
    .title = "Heat slows a GPU down",
    .looks_for =
        "Time in which the driver or the hardware lowers the clocks of a working GPU because of its temperature: "
        "gpu.reason_sw_thermal, gpu.reason_hw_thermal.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 17,
    .look_alikes = "gpu.power_cap,gpu.hw_slowdown,a GPU that idles",
    .proof = Proof::test_double,
    .thresholds = {kMinShare, kSevereShare, {"min_seconds", 3, "s", "least time with that reason"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the node is cool again", "job"}},
    .advice = {"Tell the administrators: a GPU that is too hot slows down every job on its node."},
    .admin_remedy = {"nvidia-smi -i {gpu} -q -d TEMPERATURE,PERFORMANCE   # under load: limits and reasons",
                     "ipmitool sdr type Fan; ipmitool sdr type Temperature   # fans, inlet",
                     {"scontrol update nodename={nodes} state=drain reason=gpu-heat", "job"}},
    .verify = "nvidia-smi -q -d PERFORMANCE shows no thermal slowdown under the same load",
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"},
    .check = check_heat,
}};

const RegisteredRule kSlowdown{{
    .id = "gpu.hw_slowdown",
    .title = "A GPU's hardware slows itself down",
    .looks_for = "The power brake, or the hardware's slowdown without its thermal one, for several seconds in a row "
                 "while a GPU works: gpu.reason_power_brake, gpu.reason_hw_slowdown.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 16,
    .look_alikes = "gpu.thermal_throttle,a change of the performance state,a GPU that idles",
    .proof = Proof::test_double,
    .thresholds = {{"min_seconds", 3, "s", "least uninterrupted time; a change of state sets the bit for a moment"}},
    .user_remedy = {{"sbatch --exclude={nodes} ...   # until the node is repaired", "job"}},
    .advice = {"Tell the administrators: the node's power supply or the board must be checked."},
    .admin_remedy = {"ipmitool sel list; ipmitool sdr type 'Power Supply'   # power supplies, power brake",
                     "nvidia-smi -i {gpu} -q -d PERFORMANCE,POWER",
                     {"scontrol update nodename={nodes} state=drain reason=gpu-power-brake", "job"}},
    .verify = "nvidia-smi -q -d PERFORMANCE shows no hardware slowdown under the same load",
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"},
    .check = check_hardware,
}};

const RegisteredRule kPowerCap{{
    .id = "gpu.power_cap",
    .title = "A GPU's power limit is lower than usual and slows it down",
    .looks_for = "A power limit below the default, or below that of the job's other GPUs of the model "
                 "(gpu.*.power_limit), that lowers the clocks (gpu.reason_power_cap).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 18,
    .look_alikes = "gpu.hw_slowdown,gpu.thermal_throttle,full load at the default limit",
    .proof = Proof::test_double,
    .thresholds = {{"min_share", 0.2, "ratio", "least share of the time a GPU worked"},
                   {"min_below", 0.03, "ratio", "part of the usual limit that is missing"},
                   {"min_seconds", 10, "s", "least time with that reason"}},
    .user_remedy = {},
    .advice = {"You cannot change this in the job: the administrators set the limit, perhaps on purpose for power or "
               "cooling."},
    .admin_remedy = {"nvidia-smi -i {gpu} -pl {usual}   # if the limit is not intended; also in the unit that sets it"},
    .verify = "nvidia-smi -q -d POWER shows the default limit",
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"},
    .check = check_power,
}};

const RegisteredRule kLocked{{
    .id = "gpu.clocks_locked_low",
    .title = "A setting holds a GPU's clocks low",
    .looks_for = "A GPU that works at a clock (gpu.sm_clock) below the usual one, because its application clock is "
                 "set lower, or because a setting holds it (gpu.reason_application_clocks).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 19,
    .look_alikes = "gpu.power_cap,gpu.thermal_throttle,gpu.hw_slowdown,application clocks at their default,"
                   "a card that never reaches its highest clock",
    .proof = Proof::test_double,
    .thresholds = {{"min_below", 0.1, "ratio", "part of the usual clock that is missing"},
                   {"min_seconds", 20, "s", "least time in which the GPU works"}},
    .user_remedy = {{"srun --gpu-freq=high ...   # or without --gpu-freq", "job"},
                    "nvidia-smi -i {gpu} -q -d CLOCK   # applications, max"},
    .admin_remedy = {"nvidia-smi -i {gpu} -rgc; nvidia-smi -i {gpu} -rac   # and in the site's epilog"},
    .verify = "gpu.sm_clock comes near the highest clock under the same load",
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
                "https://slurm.schedmd.com/srun.html#OPT_gpu-freq"},
    .check = check_locked,
}};

}  // namespace
}  // namespace reveal::rule::gpu_throttle
