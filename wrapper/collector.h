// Starting and stopping reveal-collect for a launch. Every failure in here costs the profile, never the job.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "wrapper/job_directory.h"
#include "wrapper/launch.h"
#include "wrapper/process.h"
#include "wrapper/run_directory.h"

namespace reveal {

/// The collector's error message for these lists of probes and of functions (only the collector has the tables); "" if
/// it accepts them.
[[nodiscard]] std::string names_problem(const std::string& probes, const std::string& functions);

/// Starts the collector unless another rank did, and writes down its pid and the directory for the other ranks. Returns
/// the pid if it is our child, else -1. `say` prints messages for the user. Throws Error if it cannot be started.
pid_t ensure_collector(const RunSettings& settings, const Launch& launch, std::span<const std::string> command,
                       const RunDirectory& run, const BlockedSignals& signals, const Environment& environment,
                       const std::function<void(const std::string&)>& say);

/// Where this launch records; nothing if it does not.
[[nodiscard]] std::optional<JobDirectory> recorded_in(const RunDirectory& run);

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

/// Sends the collector SIGTERM, on which it closes its trace, or SIGKILL.
void signal_collector(const RunDirectory& run, int signal) noexcept;

/// Waits, at most 10 s, until the collector of this launch has closed its trace. `status` is its exit status if it was
/// our child and has already ended.
[[nodiscard]] CollectorResult await_collector(const Launch& launch, const RunDirectory& run, std::optional<int> status);

/// Ends the collector and removes its unfinished files.
void discard_collector(const Launch& launch, const RunDirectory& run);

}  // namespace reveal
