// GPUs that stand still in the middle of the job because the cpus that prepare their data are full.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/kernel_launches.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_starved_input {
namespace {

constexpr double kOneThread = 1.5;  // cpus: with less, a process has no second full thread

/// Returns the cpus of each task; nothing if the job has several and their cpus are not known.
std::optional<double> cpus_of_task(const RuleContext& context, double cpus_allowed) {
  if (const auto each = parse_int(context.snapshot_value("env.SLURM_CPUS_PER_TASK"))) return static_cast<double>(*each);
  const auto tasks = parse_int(context.snapshot_value("env.SLURM_NTASKS"));
  return tasks.value_or(1) > 1 ? std::nullopt : std::optional(cpus_allowed);
}

/// Returns twice the cpus of each task, but no more than the node has for it; nothing if that is no more than now.
std::optional<double> more_cpus(const RuleContext& context, double own) {
  const auto cpus = static_cast<double>(parse_cpu_list(context.snapshot_value("cpu.online")).size());
  const auto setting = [&](const char* key) { return parse_int(context.snapshot_value(key)); };
  const auto nodes = static_cast<double>(std::max<std::int64_t>(1, setting("env.SLURM_JOB_NUM_NODES").value_or(1)));
  const double spread = std::ceil(static_cast<double>(setting("env.SLURM_NTASKS").value_or(1)) / nodes);
  const auto tasks = setting("env.SLURM_NTASKS_PER_NODE");
  const double most = std::floor(cpus / std::max(1.0, tasks ? static_cast<double>(*tasks) : spread));
  const double more = cpus > 0 ? std::min(2 * own, most) : 2 * own;
  return more > own ? std::optional(more) : std::nullopt;
}

std::vector<Finding> check_input(const RuleContext& context) {
  const auto still = standstill(context);
  if (!still) return {};
  const Meanwhile now = meanwhile(context, *still);
  if (std::isnan(now.cpus)) throw Unavailable("not measured: job.cpu_time");
  if (now.io_wait >= context.threshold("max_io_wait")) return {};  // gpu.starved_io
  if (found_before(context, "cpu.affinity_too_narrow") || found_before(context, "cpu.cfs_throttled")) return {};
  const bool full = now.cpus_full(context.threshold("min_full"));
  const bool one = !full && now.busiest >= context.threshold("min_full");
  if (!full && !one) return {};
  if (one) {
    if (found_before(context, "stack.sync_bound")) return {};  // it polls for its GPU
    const auto launches = kernel_launches(context, still->phase);
    if (launches && launches->share >= context.threshold(kMinLaunching.name)) return {};  // gpu.small_kernels
    // A process that polls for its neighbours takes a whole cpu, too.
    const std::vector<double> sent = sent_away(context);
    if (sent.empty()) throw Unavailable("not measured: traffic between nodes (net.tx_bytes)");
    if (mean_then(*still, sent) >= context.threshold("max_traffic") * 1e6) return {};
  }

  const GpuWords gpus = gpu_words(context);
  JobValues values = gpu_values(context, still->gpu);
  const auto own = cpus_of_task(context, now.cpus_allowed);
  if (const auto more = full && own ? more_cpus(context, *own) : std::nullopt) {
    values["more_cpus"] = fmt::format("{:.0f}", *more);
    values["own_cpus"] = fmt::format("{:.0f}", *own);
  }
  if (!full && own && *own >= 3) values["workers"] = fmt::format("{:.0f}", *own - 1);
  Finding finding = standstill_finding(context, *still, values);
  const std::string cpus = counted(std::round(now.cpus_allowed), "cpu");
  if (full) {
    finding.evidence.push_back(fact_then(context, finding, "job.cpu_time", "", now.cpus, now.cpus_allowed, "cpus"));
    finding.sentence = fmt::format(
        "{} waited for data: {} worked {} % of the time, and while {} {} idle, the job used {} of the {} that it may "
        "use.",
        gpus.subject, gpus.they, number(still->use), gpus.they, gpus.were, number(now.cpus), cpus);
  } else {
    // It may be a phase of the job's that needs no GPU.
    finding.severity = Severity::notice;
    finding.confidence = Confidence::possible;
    finding.evidence.push_back(
        fact_then(context, finding, "process.cpu_time", now.process, now.busiest, std::nullopt, "cpus"));
    const bool one_thread = now.busiest < kOneThread && now.second < context.threshold("min_full");
    finding.sentence = fmt::format(
        "{} worked {} % of the time between {} first and {} last work; while {} {} idle, {} used {}, and the whole job "
        "{}{}{}.",
        gpus.subject, number(still->use), gpus.their, gpus.their, gpus.they, gpus.were, context.rank_name(now.process),
        counted(now.busiest, "cpu"), number(now.cpus), now.cpus_allowed > 0 ? " of its " + cpus : "",
        one_thread ? ": one thread may prepare its data" : "");
  }
  finding.runner_up = {"gpu.starved_io",
                       std::isnan(now.io_wait)
                           ? "how long tasks waited for storage was not measured"
                           : fmt::format("tasks waited for storage only {} % of that time", number(100 * now.io_wait))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.starved_input",
    .title = "GPUs wait for the cpus that prepare their data",
    .looks_for = "GPUs that are idle for much of the time (gpu.utilization) while the job's cpus (job.cpu_time) or one "
                 "of its processes (process.cpu_time) are fully used.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 99,
    .look_alikes = "gpu.starved_io,gpu.small_kernels,stack.sync_bound,cpu.affinity_too_narrow,cpu.cfs_throttled,short "
                   "pauses for checkpoints,"
                   "a process that polls for another node",
    .proof = Proof::real,
    .thresholds = {kMinGpuIdle,
                   kMaxGpuUse,
                   kMinGpuPhase,
                   {"min_full", 0.9, "ratio", "part of the job's cpus, or of one cpu, that is used then"},
                   {"max_io_wait", 0.3, "s/s", "waiting for storage from which gpu.starved_io applies instead"},
                   kMinLaunching,
                   {"max_traffic", 50, "MB/s", "traffic from which one full process may wait for another node"},
                   kMinGpuLostSeconds,
                   kMinGpuLostPercent},
    .user_remedy = {{"#SBATCH --cpus-per-task={more_cpus}   # it had {own_cpus}; use one loader process fewer than "
                     "cpus",
                     "job"},
                    {"export SRUN_CPUS_PER_TASK={more_cpus}   # since Slurm 22.05 srun does not inherit it", "job"},
                    "top -b -H -n 1 -u \"$USER\" | head -30   # on {node}, in the next run: the threads that use the "
                    "job's cpus"},
    .advice = {{"Run the job on {more_cpus} cpus instead of {own_cpus}: the job nearly filled its cpus while the GPUs "
                "were idle.",
                "!job"},
               {"In the program: DataLoader(num_workers={workers}, pin_memory=True, persistent_workers=True, "
                "prefetch_factor=4), and tensor.to(device, non_blocking=True).",
                "torch"},
               {"Prepare the data in {workers} processes or threads: the job's other cpus were not full.", "!torch"},
               {"Decode and augment on the GPU, or prepare the data once and store the result.", kOr}},
    .verify = {.expected = "gpu.utilization stays above 30 % between steps"},
    .sources = {"https://docs.pytorch.org/docs/stable/data.html",
                "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"},
    .check = check_input,
}};

}  // namespace
}  // namespace reveal::rule::gpu_starved_input
