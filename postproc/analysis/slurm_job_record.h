// Facts of the batch system about the job at its end, kept beside the traces: names, array, state, exit code.
#pragma once

#include <filesystem>
#include <string>

#include "postproc/report/report.h"

namespace reveal {

inline constexpr const char* kSlurmJobRecordFile = ".slurm.json";

/// Reads the record into `job`, if the file is there and is understood; members that it lacks stay.
void read_slurm_job_record(const std::filesystem::path& directory, ReportJob& job);

}  // namespace reveal
