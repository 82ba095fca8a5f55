// Finds a user's runs by the number of their job: the directory of an array task has the raw number in its name, and
// --reveal=output=... any name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/history/run_index.h"

namespace reveal {

/// True for "4711", "4710_3" (a task of an array) and "4711+1" (a component of a heterogeneous job).
[[nodiscard]] bool is_number_of_job(std::string_view text) noexcept;

/// The number by which people know the job: that of the array task or of the component, else the job's own.
[[nodiscard]] const std::string& job_number(const RunRecord& run) noexcept;

/// Whether the run is this job, or one of the tasks or components of it.
[[nodiscard]] bool is_of_job(const RunRecord& run, std::string_view number);

/// Directories in `folder`, of this user, whose records have the number; where no run has it, those of the tasks or
/// components of this job. In the order of their names.
[[nodiscard]] std::vector<std::filesystem::path> runs_of_job(const std::string& number,
                                                             const std::filesystem::path& folder);
/// The same among the runs in reveal's history that still exist; none where there is no history.
[[nodiscard]] std::vector<std::filesystem::path> runs_of_job(const std::string& number, const StatePlace& history);

}  // namespace reveal
