// GPUs that the job had and did not use, used unequally, or filled up.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

double mean_of(std::span<const double> series) {
  return series.empty() ? std::nan("") : mean_inside(series, {0, series.size()});
}

double most_of(std::span<const double> series) {
  double most = std::nan("");
  for (const double value : series) most = std::fmax(most, value);
  return most;
}

/// Parts of GPUs: what is told of the whole is not the job's.
bool is_divided(const RuleContext& context, const std::string& gpu) {
  return gpu_fact(context, gpu, "mig") == "enabled";
}

bool is_unused(const RuleContext& context, const std::string& gpu) {
  const auto use = gpu_series(context, "gpu.utilization", gpu);
  const double memory = most_of(gpu_series(context, "gpu.memory_used", gpu));
  return mean_of(use) < context.threshold("max_use") && most_of(use) < context.threshold("max_peak") &&
         !(memory > context.threshold("max_memory") * 1e9);
}

std::vector<Finding> check_unused(const RuleContext& context) {
  if (job_seconds(context) < context.threshold("min_seconds")) return {};
  std::vector<std::string> unused;
  std::size_t asked_for = 0;
  std::size_t measured = 0;
  for (const std::string& gpu : gpus_measured(context)) {
    if (gpu_fact(context, gpu, "allocated_by").empty()) continue;
    ++asked_for;
    if (is_divided(context, gpu) || std::isnan(mean_of(gpu_series(context, "gpu.utilization", gpu)))) continue;
    ++measured;
    if (is_unused(context, gpu)) unused.push_back(gpu);
  }
  if (asked_for == 0) throw Unavailable("nobody said which GPUs the job was given (no Slurm, no CUDA_VISIBLE_DEVICES)");
  if (measured == 0) throw Unavailable("not measured: gpu.utilization of divided GPUs (MIG)");
  if (unused.empty()) return {};
  // A step that died while its allocation lived on: nothing ran at all.
  const auto cpu = rate(context, "job.cpu_time", 1e-9, "cpus");
  if (cpu && mean_of(cpu->values) < context.threshold("min_cpu")) return {};

  const std::size_t used = measured - unused.size();
  JobValues values = gpu_values(context, unused.front());
  const bool one_node = context.snapshot_value("env.SLURM_JOB_NUM_NODES") == "1";
  if (used > 0 && one_node) values["used"] = std::to_string(used);
  if (asked_for > 1) values["gpus"] = std::to_string(asked_for);
  if (used == 0) values["none_used"] = "yes";
  Finding finding = context.finding(values);
  finding.severity = Severity::warning;
  finding.confidence = Confidence::certain;
  finding.instances = unused;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "not known: with all of its GPUs the job may run faster, with fewer it may start earlier";
  for (const std::string& gpu : unused) {
    const auto use = gpu_series(context, "gpu.utilization", gpu);
    finding.evidence.push_back(
        gpu_evidence(context, gpu, "gpu.utilization", "max", most_of(use), std::nullopt, "percent"));
  }
  std::vector<std::string> names;
  names.reserve(unused.size());
  for (const std::string& gpu : unused) names.push_back(gpu_name(context, gpu));
  finding.sentence = fmt::format("The job never used {} of its {} on {}: {} at most {} % busy within {}.",
                                 unused.size() == asked_for ? "any" : std::to_string(unused.size()),
                                 counted(static_cast<double>(asked_for), "GPU"), context.telemetry.node,
                                 listed(names, 4) + (unused.size() == 1 ? " was" : " were"),
                                 number(finding.evidence.front().observed.value_or(0)), duration(job_seconds(context)));
  finding.runner_up = {"gpu.starved_input", "a GPU that waits for data works now and then"};
  return {finding};
}

struct Load {
  std::string gpu;
  double use = 0;    // percent, mean
  double power = 0;  // W, mean; NaN: not measured
};

/// Those that the job uses, over the time from the first that begins to the last that ends.
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
  finding.impact.how = "not known: how long the others waited is not in their use";
  finding.evidence.push_back(
      gpu_evidence(context, least.gpu, "gpu.utilization", "mean", least.use, most.use, "percent"));
  if (!std::isnan(least.power) && !std::isnan(most.power)) {
    finding.evidence.push_back(gpu_evidence(context, least.gpu, "gpu.power", "mean", least.power, most.power, "W"));
  }
  finding.sentence = fmt::format("The job's GPUs on {} were loaded unequally: {} was busy {} % of the time, {} {} %.",
                                 context.telemetry.node, gpu_name(context, least.gpu), number(least.use),
                                 gpu_name(context, most.gpu), number(most.use));
  finding.runner_up = {"gpu.allocated_unused", "all of these GPUs were used"};
  return {finding};
}

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
  // The first tenth is the time in which frameworks take what they keep.
  const Growth growth{mean_inside(share, {phase.begin + tenth, phase.begin + 2 * tenth}),
                      mean_inside(share, {phase.end - tenth, phase.end}), phase};
  // A framework that keeps what it took once stays as full as it is.
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
    finding.evidence.push_back(gpu_evidence(context, gpu, "gpu.memory_used", "part of all, at the end", growth->at_end,
                                            growth->at_begin, "ratio"));
    finding.sentence = fmt::format(
        "The memory of {} on {} filled up while the job ran: {} % of it was used at the end, "
        "{} % at the beginning.",
        gpu_name(context, gpu), context.telemetry.node, number(100 * growth->at_end), number(100 * growth->at_begin));
    finding.runner_up = {"", "a framework that takes all memory at its start: here it grew later"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kUnused{{
    .id = "gpu.allocated_unused",
    .title = "A GPU was allocated and never used",
    .looks_for = "GPUs that Slurm, the devices cgroup or CUDA_VISIBLE_DEVICES gave to the job and that hardly worked "
                 "(gpu.utilization, gpu.memory_used).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 96,
    .look_alikes = "gpu.starved_input,a step that died while its allocation lived on,divided GPUs (MIG)",
    .proof = Proof::test_double,
    .thresholds = {{"max_use", 1, "percent", "mean use below which a GPU counts as unused"},
                   {"max_peak", 10, "percent", "highest use likewise"},
                   {"max_memory", 2, "GB", "most memory likewise; the driver keeps some for itself"},
                   {"min_cpu", 0.05, "cpus", "least cpu time of a job that lives"},
                   {"min_seconds", 120, "s", "shortest run"}},
    .user_remedy = {{"#SBATCH --gpus={used}   # as many as it used", "used"},
                    {"torchrun --nproc_per_node={gpus} ...   # one process for each GPU", "gpus"},
                    {"{python} -c 'import torch; print(torch.cuda.is_available())'   # in the job's environment",
                     "none_used"}},
    .advice = {{"A container needs the GPUs: --nv (Apptainer), --gpus all (docker).", "none_used"}},
    .verify = "each GPU of the job has a gpu.utilization above 0",
    .sources = {"https://github.com/PrincetonUniversity/jobstats",
                "https://github.com/guilbaults/slurm-job-exporter/issues/65"},
    .check = check_unused,
}};

const RegisteredRule kImbalance{{
    .id = "gpu.imbalance",
    .title = "GPUs of the job are loaded unequally",
    .looks_for = "GPUs of the job on one node whose mean use (gpu.utilization) differs much.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 97,
    .look_alikes = "gpu.allocated_unused,gpu.thermal_throttle,gpu.hw_slowdown,gpu.power_cap,gpu.clocks_locked_low",
    .proof = Proof::test_double,
    .thresholds = {{"min_spread", 50, "percent", "difference of the mean use of two GPUs"},
                   {"min_seconds", 60, "s", "shortest time in which they work"}},
    .user_remedy = {"nvidia-smi dmon -s u   # while it runs: which GPU waits for which"},
    .advice = {"Give all ranks the same amount of data, sort long sequences apart, and take logging and checkpoints of "
               "rank 0 off the way of the others."},
    .verify = "the GPUs' gpu.utilization differs by less than 10 %",
    .sources = {"https://github.com/awslabs/sagemaker-debugger-rulesconfig"},
    .check = check_balance,
}};

const RegisteredRule kMemory{{
    .id = "gpu.mem_pressure",
    .title = "The memory of a GPU fills up",
    .looks_for = "GPUs whose memory (gpu.memory_used) grows while they work until it is nearly full.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 98,
    .look_alikes = "a framework that takes all memory at its start,one that keeps what it once took",
    .proof = Proof::test_double,
    .forecast = true,
    .thresholds = {{"min_full", 0.95, "ratio", "part of the memory that is used at the end"},
                   {"min_growth", 0.1, "ratio", "part of the memory by which it grew"},
                   {"min_late_growth", 0.01, "ratio", "part of the memory by which it grew in the last third"},
                   {"min_seconds", 60, "s", "shortest time in which the GPU works"}},
    .user_remedy = {{"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "torch"}},
    .advice = {"Use smaller micro-batches or activation checkpointing; look for tensors that are kept from step to "
               "step (losses that are summed with their graph)."},
    .verify = "gpu.memory_used stays level after the first steps",
    .sources = {"https://docs.pytorch.org/docs/stable/notes/cuda.html"},
    .check = check_memory,
}};

}  // namespace
}  // namespace reveal
