// How a job ended, as far as the caller, the batch system or the report before has it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "postproc/analysis/slurm_job_record.h"
#include "postproc/report/report.h"

namespace reveal {

struct RecordedEnding {
  std::optional<int> exit_code;
  std::optional<double> ran_seconds;
  std::optional<SlurmJobRecord> record;
  std::string supersedes;  // id of the report before; "" for the first one
};

/// With the numbers of the caller, where it has them, else those of the report in the directory.
[[nodiscard]] RecordedEnding recorded_ending(const std::filesystem::path& directory, std::optional<int> exit_code,
                                             std::optional<double> ran_seconds);

void apply(const RecordedEnding& ending, ReportJob& job);
[[nodiscard]] bool ended_well(const RecordedEnding& ending);

}  // namespace reveal
