// The threads of the job, sorted by the cpus on which they may run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/intervention/intervention.h"

namespace reveal {

struct JobThread {
  int pid = 0;
  int tid = 0;
  std::int64_t start_ticks = 0;  // with its id it names the thread for good
  std::int64_t used_ticks = 0;   // cpu time so far
  bool realtime = false;         // its policy is not that of ordinary programs
};

struct ThreadGroup {
  CpuSet cpus;
  std::vector<JobThread> threads;
};

/// More are too many to be read every second.
inline constexpr std::int64_t kMostThreads = 512;

/// The threads of all processes, also of idle ones; nothing if there are more than kMostThreads.
[[nodiscard]] std::optional<std::vector<ThreadGroup>> thread_groups(const InterventionContext& context);

/// The process is the work of the job, and no program of reveal or of the batch system.
[[nodiscard]] bool works(const Job& job, const JobProcess& process);

/// All threads of one process.
[[nodiscard]] std::vector<JobThread> threads_of(KernelTree& fs, int pid);

/// The thread has not ended, and its id is not that of another one.
[[nodiscard]] bool is_there(KernelTree& fs, const JobThread& thread);

}  // namespace reveal
