// The end of one node of a Slurm job: its trace goes from the node's spool to the job's directory, its summary beside
// it, and the node that finds all others delivered (or waited for them long enough) builds the report. Runs as the
// job's user.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "postproc/deliver/slurm_job.h"
#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

enum class ReportWhen { epilog, job, lazy };

struct DeliverSettings {
  ReportWhen report = ReportWhen::epilog;
  std::chrono::milliseconds wait_for_nodes{3000};
  double most_seconds = 3;  // of estimated analysis; longer ones become a job of their own
};

/// Of the section [slurm]; throws Error for what it cannot understand.
[[nodiscard]] DeliverSettings read_deliver_settings(const std::string& config);

struct Delivery {
  std::filesystem::path directory;  // where traces and report are now
  bool moved = false;               // false: still in the spool, `why` says why
  std::string why;
  bool report_built = false;
  bool needs_job = false;  // too much work for an epilog
};

/// True for one caller only, of all nodes and runs that deliver there: O_EXCL.
[[nodiscard]] bool take_marker(const std::filesystem::path& directory, const char* name) noexcept;

/// The directories to try, best first: what the user asked for or reveal-JOBID in the working directory, then in the
/// home directory.
[[nodiscard]] std::vector<std::filesystem::path> delivery_candidates(const SlurmJob& job, const std::string& request);

/// `place`: the job as every one of its nodes knows it, so that all choose the same directory.
/// Throws Error only when the spool itself cannot be read.
[[nodiscard]] Delivery deliver(const std::filesystem::path& spool, const std::string& node, const SlurmJob& job,
                               const SlurmJob& place, const std::string& request, const DeliverSettings& settings,
                               const AnalysisSettings& analysis);

}  // namespace reveal
