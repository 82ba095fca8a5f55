// The cpus and processes that belong to the job beyond doubt, and whose user has not refused: nothing else is changed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/intervention/intervention.h"
#include "core/job/cpu_set.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

struct OwnedCpus {
  CpuSet cpus;
  std::string unknown;  // why they are not known; "": they are
};

/// The cpus of the job's own cpuset. Without one they are known only outside of a batch system, where they are those
/// that the launcher of the job was given.
[[nodiscard]] OwnedCpus owned_cpus(const InterventionContext& context);

using Variables = std::map<std::string, std::string, std::less<>>;
/// Nothing where it cannot be read.
[[nodiscard]] std::optional<Variables> environment_of(KernelTree& fs, int pid);

/// "" if the process belongs to the user and to the job's control group, and the user has not refused; otherwise a
/// reason.
[[nodiscard]] std::string why_left_alone(const InterventionContext& context, int pid);

/// One collector acts on a job on this node, as long as it holds this: `srun --reveal` and reveal-run may both watch
/// it. Without a batch system `job` is empty, and one acts for a user. No descriptor if another one has it.
[[nodiscard]] Descriptor claim_job(uid_t user, const std::string& job);

/// A batch system started this process, as far as its environment shows.
[[nodiscard]] bool in_batch_system();

}  // namespace reveal
