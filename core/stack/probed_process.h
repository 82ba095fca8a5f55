// Checks of a process before a function of it is probed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace reveal {

/// When it began, in ticks since the start of the node: with its number that names it for good.
[[nodiscard]] std::optional<std::int64_t> start_of(pid_t pid);

/// Whether this kernel measures durations without an end to some processes.
[[nodiscard]] bool kernel_times_safely();

/// Whether the kernel can exchange its return addresses without an end to it: durations need that.
[[nodiscard]] bool may_be_timed(pid_t pid);

}  // namespace reveal
