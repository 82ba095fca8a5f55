// From a job directory to the report of the whole job: reuse or make the nodes' summaries, merge their findings, judge.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/analysis/merge_part.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/history/run_index.h"
#include "postproc/report/report.h"

namespace reveal {

/// Whether and where earlier runs are looked for. As it is built, nowhere: tests must not meet a user's own runs.
struct HistoryOptions {
  bool enabled = false;
  std::string why_not = "it was not requested";  // enabled
  StatePlace state;  // place of the index; without one only the runs beside this one are known
};

struct ReportOptions {
  HistoryOptions history;
  AnalysisSettings settings;
  std::vector<std::string> expected_nodes;  // in addition to the nodes in the traces
  bool reuse_summaries = true;
  bool publish = true;                // nodes' summaries; nothing is written into a directory of another user
  std::optional<int> exit_code;       // exit code of the job, if the caller has it; kept over later reports
  std::optional<double> ran_seconds;  // run time of the command, if the caller has it; kept over later reports
  std::int64_t now_utc_ns = 0;
  std::size_t threads = 0;  // 0: the result of usable_threads(); the report is the same on any number
  /// Called before each node that must be analysed anew, for a progress line; one call at a time.
  std::function<void(const std::string& node, std::size_t index, std::size_t count)> progress;
  /// Gets a line for each part of the merge that cannot be used; the report is the same without it.
  Remark remark;
};

/// One line about an input that could not be used as it is; it is also in the report.
struct InputProblem {
  std::string node;
  std::string text;
  bool unusable = false;
};

/// NODE.summary.json for each of this node's traces; one that cannot be analysed has none.
void write_summaries(const std::filesystem::path& directory, const std::string& node, const AnalysisSettings& settings);

/// Several nodes' summaries as one report, without touching a file.
[[nodiscard]] Report merge_summaries(const std::vector<NodeSummary>& summaries,
                                     const std::vector<InputProblem>& problems, const ReportOptions& options);

/// Reads the directory, writes missing summaries. Throws Error when there is not one usable trace.
[[nodiscard]] Report build_report(const std::filesystem::path& directory, const ReportOptions& options,
                                  std::vector<InputProblem>& problems);

/// The report of one node alone: of its own trace or summary, and no file of another node. Without what only a
/// comparison of nodes or runs shows. Throws Error when the node has no usable trace.
[[nodiscard]] Report build_node_report(const std::filesystem::path& directory, const std::string& node,
                                       const ReportOptions& options, std::vector<InputProblem>& problems);

/// The reports with each of the settings, which differ in rules only: a trace without a stored summary is read and
/// searched once for all of them. Writes nothing; the options' own settings are not used. Throws as above.
[[nodiscard]] std::vector<Report> try_settings(const std::filesystem::path& directory,
                                               std::span<const AnalysisSettings> settings,
                                               const ReportOptions& options);

/// Writes one part of the merge for build_report(), which finds it in the directory: of nodes whose summaries are
/// missing these, too. Returns the number of nodes in it. Throws Error.
std::size_t write_merge_part(const std::filesystem::path& directory, PartNumber part, const ReportOptions& options,
                             std::vector<InputProblem>& problems);
/// The history options for a program of the user: [report] history, and none as root.
[[nodiscard]] HistoryOptions history_options(const AnalysisSettings& settings);

/// report.json, report.txt and report.html, each by rename; report.json last, since its age shows whether all are up to
/// date. Parts of the merge are removed.
void write_report(const std::filesystem::path& directory, const Report& report);

/// report.json is there and younger than every trace.
[[nodiscard]] bool report_is_fresh(const std::filesystem::path& directory);
/// The same for the files of one node, without a look at others.
[[nodiscard]] bool report_is_fresh(const std::filesystem::path& directory, const std::string& node);

}  // namespace reveal
