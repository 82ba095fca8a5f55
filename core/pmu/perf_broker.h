// Counters that the job's user may not open, opened by the broker of a Slurm job: one request, one answer with the
// descriptor. The broker reads a structure of fixed size and no text of the user's. It opens events of the job's own
// cgroup, which it recognises by itself, and, while the node has no other job, the platform's PMUs, which count for all
// processes.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/pmu/perf_event.h"

namespace reveal {

/// The sampler's side. Waits for the answer at most a few seconds; then, and when the broker has gone, the error is
/// EPIPE.
[[nodiscard]] OpenPerf perf_broker_client(int socket);

/// The broker's side: answers all requests that wait, and returns. `job`: Slurm's number of it.
void serve_perf_requests(int socket, const std::string& job) noexcept;

/// Slurm has made control groups for this job on this node, and for no other.
[[nodiscard]] bool is_only_job(const std::string& job) noexcept;

/// This descriptor is the control group that Slurm made for the job, where Slurm makes them.
[[nodiscard]] bool is_cgroup_of_job(int directory, const std::string& job) noexcept;
/// The process is in such a group, or below it.
[[nodiscard]] bool is_process_of_job(pid_t pid, const std::string& job) noexcept;

}  // namespace reveal
