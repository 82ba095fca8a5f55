// Queries Slurm's controller about a job; no other file includes <slurm/slurm.h>.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace reveal {

/// One query, as this user, in a process of its own that is given up after `limit`. Lines "key value"; "" when there is
/// no answer (no library, no controller, too slow), which is no error: the report then contains less.
[[nodiscard]] std::string query_controller(const std::string& job, std::chrono::milliseconds limit);

/// The tasks of an array that have not ended; pending ones may be counted as one.
struct UnfinishedTasks {
  std::size_t waiting_or_running = 0;
  std::size_t in_epilog = 0;  // other jobs than the one that asks
};
/// The same for an array job, asked by one of its jobs, or by none (""). Nothing when there is no answer.
[[nodiscard]] std::optional<UnfinishedTasks> query_array(const std::string& array, const std::string& own_job,
                                                         std::chrono::milliseconds limit);

/// Reads "waiting_or_running N" and "in_epilog N".
[[nodiscard]] std::optional<UnfinishedTasks> parse_unfinished_tasks(std::string_view answer);

}  // namespace reveal
