// `reveal watch JOB` on a machine that has no trace of a Slurm job: one step of the job, through srun, has a watch on
// each node, and this process draws what they send. The step overlaps all other steps and takes nothing from the job.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "postproc/live/queued_job.h"
#include "postproc/live/watch.h"

namespace reveal {

/// Names the watch of a node to the plugin, which then starts no collector for the step and sets kSpoolVariable.
inline constexpr const char* kWatchStepVariable = "REVEAL_WATCH_STEP";
/// The directory below which the plugin's collectors write on this node.
inline constexpr const char* kSpoolVariable = "REVEAL_SPOOL";

/// The words of srun before the program that it starts on each node.
[[nodiscard]] std::vector<std::string> words_of_srun(const QueuedJob& job);

/// The job that squeue lists under this number and that runs. Throws Error.
[[nodiscard]] QueuedJob find_running_job(const std::string& number);

/// `on_node`: program and options of the watch on each node. Throws Error if the step does not start within 30 s, with
/// the words of srun, and if no node records the job.
[[nodiscard]] WatchEnd watch_slurm_job(const QueuedJob& job, const std::vector<std::string>& on_node,
                                       const WatchOptions& options, std::FILE* out, const std::atomic<bool>& stop);

}  // namespace reveal
