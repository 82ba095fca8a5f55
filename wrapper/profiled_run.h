// One run from start to report: the order in which the parts of the wrapper act, and the lines it prints.
#pragma once

#include <string>
#include <vector>

#include "wrapper/settings.h"

namespace reveal {

/// Runs the command, profiled if that is possible, and returns its status. Never throws. `warnings` are printed first,
/// by one rank of the launch only.
[[nodiscard]] int run_profiled(const Settings& settings, const std::vector<std::string>& command,
                               const Environment& environment, const std::vector<std::string>& warnings) noexcept;

/// Lets no file that we open take the place of a closed stdin, stdout or stderr; the command still finds them closed.
void guard_standard_streams() noexcept;

}  // namespace reveal
