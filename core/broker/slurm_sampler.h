// What the sampler of a Slurm job does besides sampling: it waits for the job's first process, keeps out of the job's
// way, and throws away what is too short to be worth anything.
#pragma once

#include <atomic>
#include <string>

#include "core/collect.h"

namespace reveal {

struct SlurmSampling {
  std::string interval = "100ms";
  std::string probes;       // "cpu,memory"; "": all
  double min_seconds = 10;  // of a recording that is kept
  std::uint64_t max_bytes = 0;
  Retention retention;
};

/// The site's settings and, where they are well formed, the user's above them. What is wrong is logged and passed over.
[[nodiscard]] SlurmSampling read_sampling(const std::string& config, const std::string& request);

/// Returns a SamplerEnd. Throws Error.
[[nodiscard]] int sample_slurm_job(CollectOptions options, const SlurmSampling& sampling,
                                   const std::atomic<bool>& stop);

}  // namespace reveal
