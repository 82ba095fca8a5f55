// Queries Slurm's controller about a job; no other file includes <slurm/slurm.h>.
#pragma once

#include <chrono>
#include <string>

namespace reveal {

/// One query, as this user, in a process of its own that is given up after `limit`. Lines "key value"; "" when there is
/// no answer (no library, no controller, too slow), which is no error: the report then contains less.
[[nodiscard]] std::string query_controller(const std::string& job, std::chrono::milliseconds limit);

}  // namespace reveal
