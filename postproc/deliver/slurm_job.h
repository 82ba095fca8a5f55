// Slurm's facts about a job, from the node's environment and, on one node only, from the controller.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/basics/file_pattern.h"
#include "postproc/analysis/slurm_job_record.h"

namespace reveal {

/// Facts that every node of a job has without a query. They decide the directory, which must be the same for all nodes.
struct JobPlace {
  std::string id, user, cluster, work_dir, home;
  int restart = 0;
  std::vector<std::string> nodes;    // nodes of the job
  std::vector<std::string> watched;  // nodes that are expected to deliver: of an inner `srun --reveal`, the step's
  bool inner = false;                // watched by a step: its nodes may be any of the job's
};

/// Facts that one node gets from the controller or from the job's processes. They decide texts, and the name of the
/// directory once all nodes have delivered.
struct JobNames {
  std::string name, array_job, array_task, het_job, het_offset;
  std::string account, partition, mail_user;
  std::string command;  // as it was submitted: its arguments may be secrets, so only a hash of it is kept
  std::string state;    // "COMPLETED", "TIMEOUT", ...
  std::optional<int> exit_code;
  std::string cluster, work_dir;  // as the controller has them
  std::vector<std::string> nodes;
};

struct SlurmJob {
  JobPlace place;
  JobNames names;
};

/// From SLURM_* and SPANK_REVEAL_* as a prolog or epilog gets them.
/// https://slurm.schedmd.com/prolog_epilog.html
[[nodiscard]] SlurmJob slurm_job_of_environment(const std::string& id, const Environment& environment);

/// Facts that a prolog does not get (job name, array), from the environment of the job's processes as the trace in
/// `spool` has it: where no controller answers.
void add_recorded_names(JobNames& names, const std::filesystem::path& spool);

/// Fills the members that the environment did not have. `answer` are lines "key value" as query_controller() gives
/// them. The controller knows the newest run of a job: neither state nor exit code of a run before a requeue.
void add_controller_answer(JobNames& names, const std::string& answer, int restart = 0);

/// The place of a job on one node, which need not agree with others: the controller's answer replaces it.
[[nodiscard]] JobPlace place_of_one_node(JobPlace place, const JobNames& names);

/// The same for all jobs that run the same command under the same name, see postproc/history/run_identity.h; "" when
/// that is not known: not more than an interpreter, or no controller answered.
[[nodiscard]] std::string run_key_of(const JobNames& names);

/// The names that patterns such as %x stand for.
[[nodiscard]] Environment pattern_environment(const SlurmJob& job);

/// For the node that builds the report, without what is secret: folders, address and command.
[[nodiscard]] SlurmJobRecord record_of(const SlurmJob& job);

}  // namespace reveal
