// The memory of GPUs filled up while the job ran.
#include <spdlog/fmt/fmt.h>

#include <optional>
#include <vector>

#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_mem_pressure {
namespace {

/// Used parts of the memory.
struct Growth {
  double at_begin = 0;
  double at_end = 0;
  Interval at;
};

std::optional<Growth> filled_up(const RuleContext& context, const std::string& gpu) {
  constexpr double kWorks = 20;
  const auto used = gpu_series(context, "gpu.memory_used", gpu);
  const auto free = gpu_series(context, "gpu.memory_free", gpu);
  if (used.empty() || free.empty()) return std::nullopt;
  const Interval phase = active_phase(gpu_series(context, "gpu.utilization", gpu), kWorks);
  if (context.seconds(phase.length()) < context.threshold("min_seconds")) return std::nullopt;
  std::vector<double> share(used.size());
  for (std::size_t t = 0; t < share.size(); ++t) share[t] = used[t] / (used[t] + free[t]);
  const std::size_t tenth = phase.length() / 10;
  // The first tenth is the time in which frameworks take the memory that they keep.
  const Growth growth{mean_inside(share, {phase.begin + tenth, phase.begin + 2 * tenth}),
                      mean_inside(share, {phase.end - tenth, phase.end}), phase};
  // A framework that keeps its memory stays at its level.
  const std::size_t last_third = phase.end - phase.length() / 3;
  const double late = growth.at_end - mean_inside(share, {last_third, last_third + tenth});
  const bool grows = growth.at_end - growth.at_begin >= context.threshold("min_growth") &&
                     late >= context.threshold("min_late_growth");
  if (!(growth.at_end >= context.threshold("min_full")) || !grows) return std::nullopt;
  return growth;
}

std::vector<Finding> check_memory(const RuleContext& context) {
  std::vector<Finding> findings;
  for (const std::string& gpu : gpus_measured(context)) {
    if (is_divided(context, gpu)) continue;
    const auto growth = filled_up(context, gpu);
    if (!growth) continue;
    JobValues values = gpu_values(context, gpu);
    Finding finding = context.finding(values);
    finding.severity = Severity::notice;
    finding.confidence = Confidence::likely;
    finding.instances = {gpu};
    finding.intervals = {context.span(growth->at.begin, growth->at.end)};
    finding.impact.how = "none seen: a job whose GPU memory is full may end with an error";
    finding.evidence.push_back(
        fact(context, "gpu.memory_used", gpu, "part of all, at the end", growth->at_end, growth->at_begin, "ratio"));
    finding.sentence = fmt::format(
        "The memory of {} on {} filled up while the job ran: {} % of it was used at the end, "
        "{} % at the beginning.",
        gpu_name(context, gpu), context.telemetry.node, number(100 * growth->at_end), number(100 * growth->at_begin));
    finding.runner_up = {"", "a framework that takes all memory at its start: here it grew later"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kMemory{{
    .id = "gpu.mem_pressure",
    .title = "The memory of a GPU fills up",
    .looks_for = "GPUs whose memory (gpu.memory_used) grows while they work until it is nearly full.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 98,
    .look_alikes = "a framework that takes all memory at its start,one that never returns memory",
    .proof = Proof::real,
    .forecast = true,
    .thresholds = {{"min_full", 0.95, "ratio", "part of the memory that is used at the end"},
                   {"min_growth", 0.1, "ratio", "part of the memory by which it grew"},
                   {"min_late_growth", 0.01, "ratio", "part of the memory by which it grew in the last third"},
                   {"min_seconds", 60, "s", "shortest time in which the GPU works"}},
    .user_remedy =
        {{"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # PyTorch then loses less memory between blocks",
          "torch"}},
    .advice = {"Use smaller micro-batches or activation checkpointing; look for tensors that are kept from step to "
               "step (losses that are summed with their graph)."},
    .verify = {.expected = "gpu.memory_used is level after the first steps"},
    .sources = {"https://docs.pytorch.org/docs/stable/notes/cuda.html"},
    .check = check_memory,
}};

}  // namespace
}  // namespace reveal::rule::gpu_mem_pressure
