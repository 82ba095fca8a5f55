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
  std::string array_job, array_task, het_job, name, account, partition, cluster, state, run_key;
  std::optional<int> exit_code;
};

[[nodiscard]] std::string render_slurm_job_record(const SlurmJobRecord& record);

/// Reads the record into `job`, if the file is there and is understood; members that it lacks stay.
void read_slurm_job_record(const std::filesystem::path& directory, ReportJob& job);

}  // namespace reveal
