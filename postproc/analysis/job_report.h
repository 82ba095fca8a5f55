// From a job directory to the report of the whole job: reuse or make the nodes' summaries, merge their findings, judge.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "postproc/analysis/input_problems.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/analysis/report_options.h"
#include "postproc/report/report.h"

namespace reveal {

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

/// report.json, report.txt and report.html, each by rename; report.json last, since its age shows whether all are up to
/// date. Parts of the merge are removed.
void write_report(const std::filesystem::path& directory, const Report& report);

/// report.json is there and younger than every trace.
[[nodiscard]] bool report_is_fresh(const std::filesystem::path& directory);
/// The same for the files of one node, without a look at others.
[[nodiscard]] bool report_is_fresh(const std::filesystem::path& directory, const std::string& node);

}  // namespace reveal
