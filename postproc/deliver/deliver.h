// The end of one node of a Slurm job: its trace goes from the node's spool to the job's directory, its summary beside
// it, and the node that finds all others delivered (or waited for them long enough) builds the report. Runs as the
// job's user.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/basics/delivery_times.h"
#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/user_memory.h"
#include "postproc/deliver/slurm_job.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {

enum class ReportWhen { epilog, job, lazy };

struct DeliverSettings {
  ReportWhen report = ReportWhen::epilog;
  std::chrono::milliseconds wait_for_nodes{0};
  double most_seconds = 0;                               // limit for the estimated analysis in the epilog
  DeliveryPaces paces;                                   // see DeliveryTimes
  double memory = static_cast<double>(kMostUserMemory);  // bytes, for a report that is built here
  bool downsample_traces = false;                        // once they are analysed
};

/// Reads the settings of the section [slurm].
[[nodiscard]] DeliverSettings deliver_settings(const Config& config);

struct Delivery {
  std::filesystem::path directory;  // where traces and report are now
  bool moved = false;               // false: still in the spool, `why` has the reason
  std::string why;                  // the failures on the way, in one line
  bool report_built = false;
  bool needs_job = false;           // a job makes the report: it is too much for an epilog, or the site wants that
  bool of_other_nodes = false;      // their results may have been read for the report
  bool of_all_nodes = false;        // the report of all nodes was built here, once, from their results
  bool submits_job = false;         // this node submits it, and no other one
  double seconds_after_epilog = 0;  // that this node analyses its trace for, of an idle cpu
  std::optional<JobNames> names;    // learnt on the way
  Descriptor folder;                // `directory`, also once another node has renamed it
};

/// The longest time after the epilog in which a node of the job analyses its trace: the estimate is for an idle cpu.
[[nodiscard]] std::chrono::seconds longest_analysis(const Delivery& delivery) noexcept;

/// The wait of the node at this place in the list of a job's nodes: `spread` between two of them, or less where the
/// last one would wait for more than `longest`. No two nodes have the same turn.
[[nodiscard]] std::chrono::nanoseconds time_of_turn(std::size_t turn, std::size_t nodes,
                                                    std::chrono::nanoseconds spread,
                                                    std::chrono::nanoseconds longest) noexcept;

/// The largest job whose report needs no job of its own, on a node of these paces, with so many bytes of memory.
struct EpilogLimits {
  std::size_t nodes = 0;
  double trace_bytes = 0;  // one node's
};
[[nodiscard]] EpilogLimits epilog_limits(const DeliveryPaces& paces, double memory);

/// Memory that the report of so many nodes takes: it is linear in them, also where steps have read their summaries.
[[nodiscard]] double merge_bytes(std::size_t nodes) noexcept;

/// True for one caller only, of all nodes and runs that deliver there: O_EXCL.
[[nodiscard]] bool take_marker(const std::filesystem::path& directory, const char* name) noexcept;
/// The same in an open directory.
[[nodiscard]] bool take_marker(int folder, const char* name) noexcept;

/// Whether a job makes the report. The marker of a node that came to its end before it had submitted the job counts for
/// a minute.
[[nodiscard]] bool has_report_job(const std::filesystem::path& directory) noexcept;
/// The job was submitted.
void confirm_report_job(const Delivery& delivery) noexcept;

struct Candidate {
  std::filesystem::path path;
  bool make_parents = false;  // requested by name; else it must lie in a directory that exists
};

/// The directories to try, best first: the user's directory or reveal-JOBID in the working directory, then in the home
/// directory. Unknown values of the pattern (%x, %A, %a) become the job's id.
[[nodiscard]] std::vector<Candidate> delivery_candidates(const SlurmJob& job, const std::string& request);

/// Where the directory is now: once all nodes are in, the one that builds the report first renames it to the name that
/// only the controller has, and writes the new name into it.
[[nodiscard]] std::filesystem::path delivered_to(const Delivery& delivery);

/// The names of the job, queried once when this node has its directory, so that they are there before the traces;
/// nothing if another node queries them. `first`: no other node came to this directory before.
using LearnNames = std::function<std::optional<JobNames>(const std::filesystem::path& directory, bool first)>;

/// Called once the trace is where it belongs, if the analysis or the merge is too much for an epilog.
using LetEpilogGo = std::function<void(const Delivery&)>;

/// All nodes of a job choose the same directory. `job.names` are the names known to all of them: none, unless there is
/// one node only. Throws Error only when the spool itself cannot be read.
[[nodiscard]] Delivery deliver(const std::filesystem::path& spool, const std::string& node, const SlurmJob& job,
                               const std::string& request, const DeliverSettings& settings,
                               const AnalysisSettings& analysis, const LearnNames& learn = {},
                               const LetEpilogGo& let_epilog_go = {});

}  // namespace reveal
