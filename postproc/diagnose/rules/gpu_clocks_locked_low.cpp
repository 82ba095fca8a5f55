// A setting that holds the clocks of a GPU low while it works.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_clocks_locked_low {
namespace {

constexpr std::string_view kSetting[] = {"gpu.reason_application_clocks"};

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
  // A clock that never moves while the driver reports that a setting holds it, unless it is the usual one of
  // applications. Without the driver's report it proves nothing: many cards never reach their highest clock.
  const bool flat = high - low <= kSame * middle;
  const bool is_usual = usual && middle >= *usual * (1 - kSame);
  if (!most || !flat || is_usual || middle >= *most * below || !held_by_setting(context, gpu)) return std::nullopt;
  if (something_else_held(context, gpu, kSame)) return std::nullopt;
  return LockedClock{middle, usual.value_or(*most),
                     "the driver reports that a setting fixed the clock, and the clock never changed"};
}

std::vector<Finding> check_locked(const RuleContext& context) {
  static_cast<void>(held_back(context, kSetting));  // without reasons, causes cannot be separated
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

const RegisteredRule kRule{{
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
    .user_remedy = {{"srun --gpu-freq=high   # in place of a lower --gpu-freq", "job"},
                    "nvidia-smi -i {gpu} -q -d CLOCK   # compare \"Applications Clocks\" with \"Max Clocks\""},
    .admin_remedy =
        {"nvidia-smi -i {gpu} -rgc   # changes {node}: no locked clocks; also in the site's epilog",
         "nvidia-smi -i {gpu} -rac   # changes {node}: default clocks of applications; also in the site's epilog"},
    .verify = {.expected = "gpu.sm_clock is near the possible clock in this finding, unless power or heat limits it"},
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
                "https://slurm.schedmd.com/srun.html#OPT_gpu-freq"},
    .check = check_locked,
}};

}  // namespace
}  // namespace reveal::rule::gpu_clocks_locked_low
