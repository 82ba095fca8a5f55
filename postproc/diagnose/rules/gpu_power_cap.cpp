// A power limit below the usual one that holds the clocks of a GPU down while it works.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_power_cap {
namespace {

constexpr std::string_view kPower[] = {"gpu.reason_power_cap"};

/// Watts; the rated power of the GPU, or the limit of others of its kind in the job.
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
    finding.severity = Severity::notice;  // a site may have set it so on purpose, for all of its nodes
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

const RegisteredRule kRule{{
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
    .admin_remedy =
        {{"nvidia-smi -i {gpu} -pl {usual}   # changes the limit, if it is not intended; also in the unit that sets it",
          "nvidia"},
         {"amd-smi set -g {gpu} --power-cap {usual}   # changes the limit, if it is not intended; also in the unit "
          "that sets it",
          "amd"},
         {"xpu-smi config -d {gpu} --powerlimit {usual}   # changes the limit, if it is not intended; also in the unit "
          "that sets it",
          "intel"}},
    .verify = {.expected = "the GPU's power limit is its default limit"},
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
                "https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html",
                "https://intel.github.io/xpumanager/2.0/xpu-smi/overview.html"},
    .check = check_power,
}};

}  // namespace
}  // namespace reveal::rule::gpu_power_cap
