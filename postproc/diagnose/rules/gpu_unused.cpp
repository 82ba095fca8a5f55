// GPUs that the job had and did not use.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/numerics/present_values.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_unused {
namespace {

double most_of(std::span<const double> series) {
  double most = std::nan("");
  for (const double value : series) most = std::fmax(most, value);
  return most;
}

/// It could not be used any more, for a reason that is the finding of another rule.
bool was_lost(const RuleContext& context, const std::string& gpu) {
  return std::any_of(context.events.begin(), context.events.end(),
                     [&gpu](const Event& event) { return event.object == gpu && event.code == "gpu_lost"; });
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
    if (is_divided(context, gpu) || was_lost(context, gpu) ||
        std::isnan(mean_of(gpu_series(context, "gpu.utilization", gpu))))
      continue;
    ++measured;
    if (is_unused(context, gpu)) unused.push_back(gpu);
  }
  if (asked_for == 0) throw Unavailable("the job's GPUs are not known (no Slurm, no CUDA_VISIBLE_DEVICES)");
  if (measured == 0) throw Unavailable("not measured: gpu.utilization of divided (MIG) or lost GPUs");
  if (unused.empty()) return {};
  // A step that ended while its allocation remained: nothing ran at all.
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
  finding.impact.how = asked_for == 1
                           ? "not known: with its GPU the job may run faster, without one it may start earlier"
                           : "not known: with all of its GPUs the job may run faster, with fewer it may start earlier";
  double most = 0;
  for (const std::string& gpu : unused) {
    const double peak = most_of(gpu_series(context, "gpu.utilization", gpu));
    finding.evidence.push_back(fact(context, "gpu.utilization", gpu, "max", peak, std::nullopt, "percent"));
    most = std::max(most, peak);
  }
  const bool idle = most == 0;
  if (!idle) finding.confidence = Confidence::likely;
  std::vector<std::string> names;
  names.reserve(unused.size());
  for (const std::string& gpu : unused) names.push_back(gpu_name(context, gpu));
  const std::string part = unused.size() == asked_for ? "any" : std::to_string(unused.size());
  finding.sentence =
      fmt::format("The job {} used {} on node {}: {} {} busy within {}.", idle ? "never" : "hardly",
                  asked_for == 1 ? "its only GPU"
                                 : fmt::format("{} of its {}", part, counted(static_cast<double>(asked_for), "GPU")),
                  context.telemetry.node, listed(names, 4) + (unused.size() == 1 ? " was" : " were"),
                  idle ? "0 %" : fmt::format("at most {} %", number(most)), duration(job_seconds(context)));
  finding.runner_up = {"gpu.starved_input", "a GPU that waits for data works now and then"};
  return {finding};
}

const RegisteredRule kUnused{{
    .id = "gpu.allocated_unused",
    .title = "A GPU was allocated and had little or no work",
    .looks_for = "GPUs that Slurm, the devices cgroup or CUDA_VISIBLE_DEVICES gave to the job and that hardly worked "
                 "(gpu.utilization, gpu.memory_used).",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::gpu,
    .order = 96,
    .look_alikes = "gpu.starved_input,gpu.xid,a step that ended while its allocation remained,divided GPUs (MIG)",
    .proof = Proof::real,
    .thresholds = {{"max_use", 1, "percent", "mean utilisation below which a GPU counts as unused"},
                   {"max_peak", 10, "percent", "highest utilisation below which a GPU counts as unused"},
                   {"max_memory", 2, "GB", "most memory of an unused GPU; the driver keeps some for itself"},
                   {"min_cpu", 0.05, "cpus", "least cpu time of a running job"},
                   {"min_seconds", 120, "s", "shortest run"}},
    .user_remedy =
        {{"#SBATCH --gpus={used}   # as many as the job used; in place of --gres=gpu and other lines for GPUs", "used"},
         {"torchrun --nproc_per_node={gpus}   # one process for each GPU", "gpus,torch", kOr},
         {"nvidia-smi -L   # inside the job, in its container if it has one: lists the GPUs that it can see",
          "none_used,nvidia"},
         {"amd-smi list   # inside the job, in its container if it has one: lists the GPUs that it can see",
          "none_used,amd"},
         {"xpu-smi discovery   # inside the job, in its container if it has one: lists the GPUs that it can see",
          "none_used,intel"},
         {"{python} -c 'import torch; print(torch.cuda.is_available())'   # in the job's environment: must print True",
          "none_used,torch"}},
    .advice =
        {{"If nvidia-smi -L lists no GPU in the container, start it with the GPUs: apptainer exec --nv, or docker run "
          "--gpus all.",
          "none_used,nvidia", kIf},
         {"If amd-smi list shows no GPU in the container, start it with the GPUs: apptainer exec --rocm.",
          "none_used,amd", kIf}},
    .verify = {.expected = "gpu.utilization of each GPU is above 0"},
    .sources = {"https://github.com/PrincetonUniversity/jobstats",
                "https://github.com/guilbaults/slurm-job-exporter/issues/65"},
    .check = check_unused,
}};

}  // namespace
}  // namespace reveal::rule::gpu_unused
