// The end of one node of a Slurm job: its trace goes from the node's spool to the job's directory, its summary beside
// it, and the node that finds all others delivered (or waited for them long enough) builds the report. Runs as the
// job's user.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "postproc/deliver/slurm_job.h"
#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

enum class ReportWhen { epilog, job, lazy };

struct DeliverSettings {
  ReportWhen report = ReportWhen::epilog;
  std::chrono::milliseconds wait_for_nodes{0};
  double most_seconds = 0;         // of estimated analysis in the epilog
  bool downsample_traces = false;  // once they are analysed
};

/// Of the section [slurm].
[[nodiscard]] DeliverSettings deliver_settings(const Config& config);

struct Delivery {
  std::filesystem::path directory;  // where traces and report are now
  bool moved = false;               // false: still in the spool, `why` says why
  std::string why;                  // what failed on the way, in one line
  bool report_built = false;
  bool needs_job = false;  // too much work for an epilog
};

/// Made by the node that asks the controller.
inline constexpr const char* kAskedFile = ".asked";

/// True for one caller only, of all nodes and runs that deliver there: O_EXCL.
[[nodiscard]] bool take_marker(const std::filesystem::path& directory, const char* name) noexcept;

struct Candidate {
  std::filesystem::path path;
  bool make_parents = false;  // asked for by name; else it must lie in a directory that exists
};

/// The directories to try, best first: what the user asked for or reveal-JOBID in the working directory, then in the
/// home directory. What is not known of the job yet (%x, %A, %a) is its id.
[[nodiscard]] std::vector<Candidate> delivery_candidates(const SlurmJob& job, const std::string& request);

/// Where the run that was delivered to `directory` is now: once all of its nodes are in, it is renamed to what only the
/// controller knew (see deliver()).
[[nodiscard]] std::filesystem::path delivered_to(const std::filesystem::path& directory, const SlurmJob& job,
                                                 const std::string& request);

/// All nodes of a job choose the same directory, so only what all of them know decides. `learn` is called once, when
/// this node has found its place and before the report is built: it may ask the controller and complete `job`.
/// `let_epilog_go` is called early when the analysis is too much for an epilog, but not worth a job of its own.
/// Throws Error only when the spool itself cannot be read.
[[nodiscard]] Delivery deliver(const std::filesystem::path& spool, const std::string& node, SlurmJob& job,
                               const std::string& request, const DeliverSettings& settings,
                               const AnalysisSettings& analysis,
                               const std::function<void(const std::filesystem::path& directory)>& learn = {},
                               const std::function<void()>& let_epilog_go = {});

}  // namespace reveal
