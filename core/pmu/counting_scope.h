// The scope of counting, the narrowest that the kernel allows: the job's cgroup on the job's cpus; these cpus as a
// whole where no other job has any; else the job's processes one by one, with all that they start.
#pragma once

#include <string>
#include <vector>

#include "core/pmu/perf_event.h"
#include "core/sampler/probe.h"

namespace reveal {

struct CountingScope {
  enum class Kind : std::uint8_t { cgroup, cpus, tasks };
  Kind kind = Kind::tasks;
  Descriptor cgroup;
  std::vector<PerfTarget> targets;  // none for tasks: they come and go
  bool user_only = false;           // the kernel's own work is not shown to this user
  OpenPerf open;                    // here, or by the broker
  std::string note;                 // the missing part, in one sentence; "" for none
};

/// Throws Unavailable: no live kernel, no job where only a job's own processes could be counted, or no perf at all.
[[nodiscard]] CountingScope choose_counting_scope(const ProbeContext& context);

/// How often counters are read. A read of another cpu's interrupts it and costs 12 us: a tenth of a second where the
/// whole node costs less than half a per cent of one cpu, longer on larger ones.
[[nodiscard]] std::chrono::nanoseconds counting_period(const Host& host);

/// The text of kernel.perf_event_paranoid.
/// https://docs.kernel.org/admin-guide/perf-security.html
[[nodiscard]] std::string perf_event_paranoid(KernelTree& fs);

/// So many more files may be opened here, for counters; RLIMIT_NOFILE's soft limit was raised before.
[[nodiscard]] std::size_t files_for_counters();

}  // namespace reveal
