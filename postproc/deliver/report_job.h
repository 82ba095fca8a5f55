// A job of its own for a report that is too much work for an epilog.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "postproc/deliver/slurm_job.h"

namespace reveal {

/// Submits `command` (of a shell) with sbatch, to run as this user in `directory` once the job and its epilogs are
/// over, and not before so many seconds from now. What it asks for is dropped where sbatch refuses it. Returns "" or
/// one line about the failure. https://slurm.schedmd.com/sbatch.html
[[nodiscard]] std::string submit_report_job(const SlurmJob& job, const std::filesystem::path& directory,
                                            const std::string& command, std::chrono::seconds not_before);

/// Tasks of its job: one for 256 nodes.
[[nodiscard]] std::size_t tasks_of_report(std::size_t nodes);
/// Memory of its job, in units of 2^20 bytes: as much as a report in an epilog may have, more for many nodes.
[[nodiscard]] std::uint64_t megabytes_of_report(std::size_t nodes, std::size_t tasks);

/// The two commands of a report job: the report, then the mail. For more than 256 nodes, `reveal merge-part` on all of
/// its tasks comes before.
struct ReportJobCommand {
  std::string program;     // reveal
  std::string config;      // "": the default
  std::string request;     // the text behind --reveal=
  std::string mail_state;  // where mails are counted; "": they are not
  bool downsample_traces = false;
};
[[nodiscard]] std::string shell_text(const ReportJobCommand& command, const SlurmJob& job,
                                     const std::filesystem::path& directory);

/// 'it'\''s', for a shell.
[[nodiscard]] std::string shell_quoted(const std::string& word);

}  // namespace reveal
