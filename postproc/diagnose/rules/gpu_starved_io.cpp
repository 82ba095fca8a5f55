// GPUs that stand still in the middle of the job because the data come too slowly from storage.
#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_starved_io {
namespace {

std::vector<Finding> check_storage(const RuleContext& context) {
  const auto still = standstill(context);
  if (!still) return {};
  const Meanwhile now = meanwhile(context, *still);
  if (std::isnan(now.io_wait)) throw Unavailable("not measured: pressure.io_some");
  if (now.io_wait < context.threshold("min_io_wait")) return {};
  if (now.cpus_full(context.threshold("max_full"))) return {};
  Finding finding = standstill_finding(context, *still, gpu_values(context, still->gpu));
  finding.evidence.push_back(fact_then(context, finding, "pressure.io_some", "", now.io_wait, std::nullopt, "s/s"));
  finding.sentence = fmt::format(
      "The job's GPUs on {} waited for storage: they worked {} % of the time, and while they were idle, tasks waited "
      "for io {} % of the time.",
      context.telemetry.node, number(still->use), number(100 * now.io_wait));
  finding.runner_up = {"gpu.starved_input", fmt::format("the cpus were not full: the job used {} of {}",
                                                        number(now.cpus), number(now.cpus_allowed))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.starved_io",
    .title = "GPUs wait for storage",
    .looks_for = "GPUs that are idle for much of the time (gpu.utilization) while tasks wait for io "
                 "(cgroup.io_some, pressure.io_some) and cpus are free.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 99,
    .look_alikes = "gpu.starved_input,short pauses for checkpoints",
    .proof = Proof::test_double,
    .thresholds = {kMinGpuIdle,
                   kMaxGpuUse,
                   kMinGpuPhase,
                   {"min_io_wait", 0.3, "s/s", "waiting for storage while the GPUs are idle"},
                   {"max_full", 0.9, "ratio",
                    "utilisation of the job's cpus from which gpu.starved_input applies instead"},
                   kMinGpuLostSeconds,
                   kMinGpuLostPercent},
    .user_remedy = {},
    .advice =
        {{"Copy the data to the disk of each node before the training: srun --ntasks-per-node=1 cp -r DATA $TMPDIR/.",
          "job"},
         {"Copy the data to a disk of the node before the training.", "!job"},
         "Pack many small files into few large ones (tar shards, HDF5), read more ahead, and write checkpoints in "
         "the background."},
    .verify = "pressure.io_some and the pauses in gpu.utilization disappear",
    .sources = {"https://docs.hpc.kifu.hu/tasks/filemgmt.html",
                "https://github.com/awslabs/sagemaker-debugger-rulesconfig"},
    .check = check_storage,
}};

}  // namespace
}  // namespace reveal::rule::gpu_starved_io
