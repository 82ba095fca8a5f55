// Facts of the batch system about the job at its end, kept beside the traces: names, array, state, exit code.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "postproc/report/report.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {

struct SlurmJobRecord {
  std::string id;
  int restart = 0;
  std::string array_job, array_task, het_job, het_offset, name, account, partition, cluster, state, run_key;
  std::optional<int> exit_code;
};

[[nodiscard]] std::string render_slurm_job_record(const SlurmJobRecord& record);

/// Nothing where there is none, or it is damaged.
[[nodiscard]] std::optional<SlurmJobRecord> read_slurm_job_record(const std::filesystem::path& directory);

/// Members that the record lacks stay.
void apply(const SlurmJobRecord& record, ReportJob& job);

}  // namespace reveal
