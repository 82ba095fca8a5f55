// GPUs that the job used unequally.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_imbalance {
namespace {

struct Load {
  std::string gpu;
  double use = 0;    // percent, mean
  double power = 0;  // W, mean; NaN: not measured
};

/// The GPUs that the job uses, over the time from the first that begins to the last that ends.
std::vector<Load> loads(const RuleContext& context) {
  constexpr double kWorks = 20;
  Interval phase{context.telemetry.samples, 0};
  std::vector<std::string> used;
  for (const std::string& gpu : gpus_measured(context)) {
    if (is_divided(context, gpu)) continue;
    const Interval own = active_phase(gpu_series(context, "gpu.utilization", gpu), kWorks);
    if (own.length() == 0) continue;
    phase = {std::min(phase.begin, own.begin), std::max(phase.end, own.end)};
    used.push_back(gpu);
  }
  std::vector<Load> all;
  if (used.size() < 2 || context.seconds(phase.end - phase.begin) < context.threshold("min_seconds")) return all;
  for (const std::string& gpu : used) {
    const auto power = gpu_series(context, "gpu.power", gpu);
    all.push_back({gpu, mean_inside(gpu_series(context, "gpu.utilization", gpu), phase),
                   power.empty() ? std::nan("") : mean_inside(power, phase)});
  }
  std::sort(all.begin(), all.end(), [](const Load& a, const Load& b) { return a.use < b.use; });
  return all;
}

std::vector<Finding> check_balance(const RuleContext& context) {
  const std::vector<Load> all = loads(context);
  if (all.size() < 2) return {};
  // One that is slower than the others for a reason of its own is that reason's finding.
  for (const std::string_view cause :
       {"gpu.thermal_throttle", "gpu.hw_slowdown", "gpu.power_cap", "gpu.clocks_locked_low"}) {
    if (found_before(context, cause)) return {};
  }
  const Load& least = all.front();
  const Load& most = all.back();
  const double spread = most.use - least.use;
  if (!(spread >= context.threshold("min_spread"))) return {};
  Finding finding = context.finding(gpu_values(context, least.gpu));
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.instances = {least.gpu, most.gpu};
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "not known: the utilisation does not show how long the other GPUs waited";
  finding.evidence.push_back(fact(context, "gpu.utilization", least.gpu, "mean", least.use, most.use, "percent"));
  if (!std::isnan(least.power) && !std::isnan(most.power)) {
    finding.evidence.push_back(fact(context, "gpu.power", least.gpu, "mean", least.power, most.power, "W"));
  }
  finding.sentence =
      fmt::format("{} had unequal load: {} was busy {} % of the time, {} {} %.", gpu_words(context).subject,
                  gpu_name(context, least.gpu), number(least.use), gpu_name(context, most.gpu), number(most.use));
  finding.runner_up = {"gpu.allocated_unused", "all of these GPUs were used"};
  return {finding};
}

const RegisteredRule kImbalance{{
    .id = "gpu.imbalance",
    .title = "GPUs of the job have unequal load",
    .looks_for = "GPUs of the job on one node with very different mean utilisation (gpu.utilization).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 97,
    .look_alikes = "gpu.allocated_unused,gpu.thermal_throttle,gpu.hw_slowdown,gpu.power_cap,gpu.clocks_locked_low",
    .proof = Proof::test_double,
    .thresholds = {{"min_spread", 50, "percent", "difference between the mean utilisation of two GPUs"},
                   {"min_seconds", 60, "s", "shortest time in which the GPUs work"}},
    .user_remedy = {{"nvidia-smi dmon -s u   # on {node}, while the job runs: the use of each GPU", "nvidia"},
                    {"amd-smi monitor --gfx   # on {node}, while the job runs: the use of each GPU", "amd"},
                    {"xpu-smi stats   # on {node}, while the job runs: the use of each GPU", "intel"}},
    .advice = {"Give all ranks the same amount of data, distribute long sequences evenly, and do not let the other "
               "ranks wait for the logging and checkpoints of rank 0."},
    .verify = {.expected = "gpu.utilization of the GPUs differs by less than 10 %"},
    .sources = {"https://github.com/awslabs/sagemaker-debugger-rulesconfig"},
    .check = check_balance,
}};

}  // namespace
}  // namespace reveal::rule::gpu_imbalance
