// GPUs that stand still in the middle of the job because the data come too slowly from storage.
#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_starved_io {
namespace {

JobValues values_of(const RuleContext& context, const Standstill& still, bool measured) {
  JobValues values = gpu_values(context, still.gpu);
  if (!measured) values["not_counted"] = "yes";
  return values;
}

std::vector<Finding> check_storage(const RuleContext& context) {
  const auto still = standstill(context);
  if (!still) return {};
  const Meanwhile now = meanwhile(context, *still);
  const bool measured = !std::isnan(now.io_wait);  // some distributions switch it off
  if (!measured && std::isnan(now.blocked)) throw Unavailable("not measured: pressure.io_some, job.blocked");
  if (measured ? now.io_wait < context.threshold("min_io_wait") : now.blocked < context.threshold("min_blocked")) {
    return {};
  }
  if (now.cpus_full(context.threshold("max_full"))) return {};
  Finding finding = standstill_finding(context, *still, values_of(context, *still, measured));
  finding.evidence.push_back(
      measured ? fact_then(context, finding, now.io_wait_metric, "", now.io_wait, std::nullopt, "s/s")
               : fact_then(context, finding, "job.blocked", "", now.blocked, std::nullopt, "processes"));
  if (!measured) finding.confidence = Confidence::possible;
  const GpuWords gpus = gpu_words(context);
  finding.sentence = fmt::format(
      "{} waited for storage: {} worked {} % of the time, and while {} {} idle, {}.", gpus.subject, gpus.they,
      number(still->use), gpus.they, gpus.were,
      measured ? fmt::format("tasks waited for io {} % of the time", number(100 * now.io_wait))
               : fmt::format("{} of the job's processes were blocked on average, which is mostly a wait for storage",
                             number(now.blocked)));
  finding.runner_up = {"gpu.starved_input", fmt::format("the cpus were not full: the job used {} of {}",
                                                        number(now.cpus), number(now.cpus_allowed))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.starved_io",
    .title = "GPUs wait for storage",
    .looks_for =
        "GPUs that are idle for much of the time (gpu.utilization) while tasks wait for io "
        "(cgroup.io_some, pressure.io_some; where the kernel does not count it, job.blocked) and cpus are free.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 99,
    .look_alikes = "gpu.starved_input,short pauses for checkpoints",
    .proof = Proof::real,
    .thresholds = {kMinGpuIdle,
                   kMaxGpuUse,
                   kMinGpuPhase,
                   {"min_io_wait", 0.3, "s/s", "waiting for storage while the GPUs are idle"},
                   {"min_blocked", 0.5, "processes", "blocked processes of the job then, where waiting is not counted"},
                   {"max_full", 0.9, "ratio",
                    "utilisation of the job's cpus from which gpu.starved_input applies instead"},
                   kMinGpuLostSeconds,
                   kMinGpuLostPercent},
    .user_remedy = {{"cat /proc/pressure/io   # on {node}, in the next run: the share of time in which processes wait "
                     "for storage",
                     "!not_counted"},
                    {"ps -u \"$USER\" -o stat,pid,wchan:32,comm   # on {node}, in the next run: processes in state D "
                     "wait for storage",
                     "not_counted"}},
    .advice =
        {{"Copy the data to the disk of each node before the training: srun -N $SLURM_JOB_NUM_NODES "
          "-n $SLURM_JOB_NUM_NODES --ntasks-per-node=1 cp -r DATA $TMPDIR/.",
          "job"},
         {"Copy the data to a disk of the node before the training.", "!job"},
         {"Pack many small files into few large ones (tar shards, HDF5), read more ahead, and write checkpoints in "
          "the background.",
          kOr}},
    .admin_remedy = {{"grubby --update-kernel=ALL --args=psi=1   # changes the node from its next boot: the kernel "
                      "then counts waits for storage and memory",
                      "not_counted"}},
    .verify = {.expected = "gpu.utilization has no pauses"},
    .sources = {"https://docs.hpc.kifu.hu/tasks/filemgmt.html",
                "https://github.com/awslabs/sagemaker-debugger-rulesconfig"},
    .check = check_storage,
}};

}  // namespace
}  // namespace reveal::rule::gpu_starved_io
