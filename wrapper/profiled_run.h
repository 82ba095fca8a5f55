// One run from start to report: the order in which the parts of the wrapper act, and the lines it prints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "wrapper/process.h"
#include "wrapper/settings.h"

namespace reveal {

struct RunOrder {
  RunSettings settings;
  std::vector<std::string> warnings;  // printed first, by one rank of the launch only
  bool names_are_typed = false;       // probes or functions, as an option: a mistake in them is the user's
};

/// Runs the command kept by keep_command(), profiled if that is possible, and returns its status.
[[nodiscard]] int run_profiled(const RunOrder& order, char* const* command, const Environment& environment,
                               const BlockedSignals& signals) noexcept;

}  // namespace reveal
