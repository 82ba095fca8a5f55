// The work of a Slurm job's sampler besides sampling: it waits for the job's first process, keeps out of the job's way,
// and deletes recordings shorter than `min_seconds`.
#pragma once

#include <atomic>
#include <string>

#include "core/collect.h"
#include "core/job/cpu_set.h"

namespace reveal {

struct SlurmSampling {
  std::string interval;
  std::string probes;  // "cpu,memory"; "": all
  std::string gpu_library;
  std::string interventions;  // rules on whose findings it may act; "": none
  bool stack = false;
  bool stack_forbidden = false;  // by the site: requests only show in the coverage
  std::string stack_budget;      // percent
  std::string stack_without;     // functions, "a,b"; "": none
  bool faster_reading = true;
  double min_seconds = 0;  // least length of a recording that is kept
  std::uint64_t max_bytes = 0;
  Retention retention;
};

struct JobCpus {
  CpuSet online;
  CpuSet allocated;     // as far as Slurm confines the job to it: all, where it does not
  CpuSet tasks;         // that the job's processes may use
  bool shared = false;  // a step of another job was seen
};
/// Where the sampler runs: on cpus of the job that its tasks leave free, else among the tasks. Only on a node that is
/// the job's alone on others: they may belong to another job at any time.
[[nodiscard]] CpuSet cpus_for_sampler(const JobCpus& cpus);

/// The site's settings and, where they are well formed, the user's above them. Problems of the request are logged here;
/// the broker has logged problems of the file. `stack`: REVEAL_STACK of the user's, "" if he has none.
[[nodiscard]] SlurmSampling read_sampling(const std::string& file, const std::string& request,
                                          const std::string& stack = "");

/// Returns a SamplerEnd. Throws Error.
[[nodiscard]] int sample_slurm_job(CollectOptions options, const SlurmSampling& sampling,
                                   const std::atomic<bool>& stop);

}  // namespace reveal
