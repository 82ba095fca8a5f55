// What Slurm knows of a job, from the node's environment and, on one node only, from the controller.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/basics/file_pattern.h"

namespace reveal {

struct SlurmJob {
  std::string id;
  std::string array_job, array_task;
  std::string het_job;
  std::string name, user, account, partition, cluster;
  std::string work_dir, home;
  std::string mail_user;
  std::string command;  // as it was submitted: its arguments may be secrets, so only a hash of it is kept
  std::string state;    // "COMPLETED", "TIMEOUT", ...
  std::optional<int> exit_code;
  int restart = 0;
  std::vector<std::string> nodes;    // of the job
  std::vector<std::string> watched;  // those that are expected to deliver: of an inner `srun --reveal`, the step's
  bool inner = false;                // watched by a step: its nodes may be any of the job's
};

/// From SLURM_* and SPANK_REVEAL_* as a prolog or epilog gets them.
[[nodiscard]] SlurmJob slurm_job_of_environment(const std::string& id, const Environment& environment);

/// What a prolog is not told (job name, array), from the environment of the job's processes as the trace in `spool` has
/// it: where no controller answers.
void add_recorded_names(SlurmJob& job, const std::filesystem::path& spool);

/// Fills what the environment did not know. `answer` are lines "key value" as ask_controller() gives them.
void add_controller_answer(SlurmJob& job, const std::string& answer);

/// The same for all jobs that run the same command under the same name, see postproc/history/run_identity.h; "" when
/// that is not known: not more than an interpreter, or no controller answered.
[[nodiscard]] std::string run_key_of(const SlurmJob& job);

/// The names that patterns such as %x stand for.
[[nodiscard]] Environment pattern_environment(const SlurmJob& job);

/// The job's facts for the node that builds the report, see postproc/report/job_facts.h.
[[nodiscard]] std::string render_slurm_job(const SlurmJob& job);

}  // namespace reveal
