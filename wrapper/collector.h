// Starting and stopping reveal-collect for a launch. Every failure in here costs the profile, never the job.
#pragma once

#include <string>

#include "wrapper/job_directory.h"
#include "wrapper/launch.h"
#include "wrapper/process.h"
#include "wrapper/run_directory.h"

namespace reveal {

/// A program of ours: beside the own binary, else in PATH; just `name` if it is nowhere (then exec says so).
[[nodiscard]] std::string find_program(const std::string& name);

/// What the collector, which alone knows them, says against this list of probes; "" if nothing.
[[nodiscard]] std::string probes_problem(const std::string& probes, const BlockedSignals& signals);

[[nodiscard]] ProgramStart collector_start(const Settings& settings, const Launch& launch,
                                           const JobDirectory& directory, const std::string& run_directory,
                                           const std::string& command, const Environment& environment);

/// Starts the collector unless another rank did, and writes down its pid and the directory for the other ranks.
/// Throws Error if it cannot be started.
void ensure_collector(const Settings& settings, const Launch& launch, const std::string& command,
                      const RunDirectory& run, const BlockedSignals& signals, const Environment& environment);

enum class CollectorEnd {
  closed,
  failed,
  interrupted,
  too_short,  // the command ended before the first sample: there is no trace, and nothing went wrong
  never_started,
};
struct CollectorResult {
  CollectorEnd end = CollectorEnd::closed;
  JobDirectory directory;  // if it was started
  std::string reason;      // one line, if it failed
};

/// Asks the collector of this launch to close its trace and waits, at most 10 s. `status` is its exit status if it was
/// our child and has already ended.
[[nodiscard]] CollectorResult stop_collector(const Launch& launch, const RunDirectory& run,
                                             const std::function<std::optional<int>(pid_t)>& status_of);

/// For a command that never ran: ends the collector and removes what it began to write.
void discard_collector(const Launch& launch, const RunDirectory& run);

}  // namespace reveal
