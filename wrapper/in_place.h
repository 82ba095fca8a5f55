// The command in the place of reveal-run: the last resort without memory, processes or descriptors. Nothing in here
// needs any of them.
#pragma once

#include <sys/types.h>

#include "wrapper/process.h"

namespace reveal {

/// From now on an uncaught error (no memory for the exception itself) does not end the command: it is run in place, or
/// waited for if it runs. Both arguments are kept by reference.
void keep_command(char* const* argv, const BlockedSignals& signals) noexcept;
void command_runs_as(pid_t pid) noexcept;
void command_ended_with(int status) noexcept;

/// Gives back signals and descriptors and becomes the command kept above.
[[noreturn]] void become_command() noexcept;

}  // namespace reveal
