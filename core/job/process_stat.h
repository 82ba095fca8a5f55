// /proc/PID/stat, /proc/PID/schedstat and /proc/PID/status as numbers.
// https://docs.kernel.org/scheduler/sched-stats.html
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hdf5schema/vocabulary.h"

namespace reveal {

/// Times in clock ticks, memory in pages, as the kernel writes them. `command` points into the parsed text.
struct ProcessStat {
  int pid = 0;
  std::string_view command;
  char state = '?';
  int parent = 0;
  std::int64_t flags = 0;
  std::int64_t minor_faults = 0;
  std::int64_t major_faults = 0;
  std::int64_t user_ticks = 0;
  std::int64_t system_ticks = 0;
  std::int64_t reaped_user_ticks = 0;  // children that were waited for, and their children
  std::int64_t reaped_system_ticks = 0;
  std::int64_t threads = 0;
  std::int64_t start_ticks = 0;  // since boot; with the pid it names a process for good
  std::int64_t resident_pages = 0;
  std::int64_t exit_signal = kMissing;  // to its parent; -1: a thread
  std::int64_t last_cpu = 0;
};

/// In `flags`, of a process that was forked and executes no program of its own (PF_FORKNOEXEC): it has copies of its
/// parent's memory.
inline constexpr std::int64_t kForkedOnly = 0x40;

/// Nothing if the text is cut off before the fields that name the process and its times, or has impossible numbers.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text) noexcept;

struct SchedStat {
  std::int64_t run_ns = 0;
  std::int64_t wait_ns = 0;  // runnable, but not running
};
[[nodiscard]] std::optional<SchedStat> parse_schedstat(std::string_view text) noexcept;

/// The value of "Key:\tvalue" in /proc/PID/status, sched and the like, without blanks; "" if there is no such line.
[[nodiscard]] std::string_view field_of(std::string_view text, std::string_view key) noexcept;

}  // namespace reveal
