#include "core/pmu/profiler_watch.h"

#include <algorithm>

#include "core/pmu/counter_group.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr std::int64_t kLookNs = kSecond;  // at the names of the job's processes

// Names of the installed programs; the kernel keeps 15 letters of a name.
// https://man7.org/linux/man-pages/man5/proc_pid_comm.5.html
constexpr std::string_view kProfilers[] = {
    "perf",           "likwid-perfctr", "likwid-perfscop",
    "likwid-mpirun",  "papi_avail",     "papi_command_li",
    "papi_hl_output", "nsys",           "ncu",
    "vtune",          "amplxe-cl",      "emon",
    "advisor",        "AMDuProfCLI",    "AMDuProfPcm",
    "hpcrun",         "forge-backend",  "pcm",
    "pcm-memory",     "toplev",         "toplev.py",
    "operf",          "ocount",         "aps",
    "scorep",         "tau_exec",
};

}  // namespace

bool is_profiler(std::string_view command) noexcept {
  return std::any_of(std::begin(kProfilers), std::end(kProfilers), [&](std::string_view name) {
    if (!command.starts_with(name)) return false;
    const std::string_view rest = command.substr(name.size());
    // "perf_6.1" and "perf-5.10" are versions; "perform" and "mapper" are other programs.
    return rest.empty() || (rest.size() > 1 && (rest[0] == '-' || rest[0] == '_') && rest[1] >= '0' && rest[1] <= '9');
  });
}

std::string ProfilerWatch::profiler_of(const Job* job) {
  if (job == nullptr) return "";
  // A process that was seen between its fork and its exec has its parent's name until the next look.
  for (const auto& process : job->processes()) {
    if (is_profiler(process->command)) return process->command;
  }
  return "";
}

bool ProfilerWatch::step_back(std::int64_t now_ns, const Job* job, double counted_share) {
  if (now_ns >= next_look_ns_) {
    next_look_ns_ = now_ns + kLookNs;
    if (const std::string found = profiler_of(job); !found.empty()) {
      until_ns_ = now_ns + kPauseAfterProfilerNs;
      starved_ = 0;
      reason_ = "the job's own profiler " + found + " had the processor's counters";
    }
  }
  if (now_ns < until_ns_) return true;
  starved_ = counted_share >= 0 && counted_share < kLeastCounted ? starved_ + 1 : 0;
  if (starved_ < kStarvedTicks) return false;
  starved_ = 0;
  until_ns_ = now_ns + kPauseNs;
  reason_ = "other programs used the processor's counters: less than 30 % of the time was left";
  return true;
}

}  // namespace reveal
