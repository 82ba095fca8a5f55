#include "postproc/analysis/recorded_ending.h"

#include "hdf5schema/basics/error.h"
#include "postproc/report/job_ending.h"
#include "postproc/report/node_entries.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr char kNoNode[] = "\n";  // no name of a node has a line break

}  // namespace

RecordedEnding recorded_ending(const std::filesystem::path& directory, std::optional<int> exit_code,
                               std::optional<double> ran_seconds) {
  RecordedEnding ending{
      .exit_code = exit_code, .ran_seconds = ran_seconds, .record = read_slurm_job_record(directory), .supersedes = {}};
  try {
    // Without its nodes: the report of thousands would need more memory than all else that is held at this time.
    const Report earlier = parse_report(read_report_about(directory / kReportFile, kNoNode));
    if (!ending.exit_code) ending.exit_code = earlier.job.exit_code;
    if (!ending.ran_seconds) ending.ran_seconds = earlier.job.ran_seconds;
    ending.supersedes = earlier.report_id;
  } catch (const Error&) {
    ending.supersedes.clear();
  }
  return ending;
}

void apply(const RecordedEnding& ending, ReportJob& job) {
  job.exit_code = ending.exit_code;
  job.ran_seconds = ending.ran_seconds;
  if (job.exit_code) job.state = *job.exit_code == 0 ? "COMPLETED" : "FAILED";
  if (ending.record) apply(*ending.record, job);
}

bool ended_well(const RecordedEnding& ending) {
  ReportJob job;
  apply(ending, job);
  return has_ended_well(job);
}

}  // namespace reveal
