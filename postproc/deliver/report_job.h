// A job of its own for a report that is too much work for an epilog.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "postproc/deliver/slurm_job.h"

namespace reveal {

/// Submits `command` (of a shell) with sbatch, to run as this user in `directory` once the job and its epilogs are
/// over, and not before so many seconds from now. Returns "" or one line about the failure.
/// https://slurm.schedmd.com/sbatch.html
[[nodiscard]] std::string submit_report_job(const SlurmJob& job, const std::filesystem::path& directory,
                                            const std::string& command, std::chrono::seconds not_before);

/// 'it'\''s', for a shell.
[[nodiscard]] std::string shell_quoted(const std::string& word);

}  // namespace reveal
