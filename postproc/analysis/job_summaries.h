// The summaries of a job's nodes: stored ones that are fresh, and an analysis of each other trace.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "postproc/analysis/input_problems.h"
#include "postproc/analysis/merge_part.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/analysis/report_options.h"
#include "postproc/telemetry/job.h"

namespace reveal {

/// The summaries of these traces; missing ones are written.
[[nodiscard]] std::vector<NodeSummary> summaries_of(std::span<const ListedTrace> traces, const ReportOptions& options,
                                                    std::vector<InputProblem>& problems);

/// The same of all nodes of a job, from parts of the merge as far as there are any.
[[nodiscard]] std::vector<NodeSummary> summaries_of_job(const std::filesystem::path& directory,
                                                        std::span<const ListedTrace> traces,
                                                        const ReportOptions& options,
                                                        std::vector<InputProblem>& problems);

/// The summaries with one of several settings.
struct TriedSummaries {
  std::vector<NodeSummary> nodes;
  std::vector<InputProblem> problems;
};
/// For each of the settings, which differ in rules only: a trace without a stored summary is read and searched once
/// for all of them. Writes nothing; the options' own settings are not used.
[[nodiscard]] std::vector<TriedSummaries> tried_summaries(std::span<const ListedTrace> traces,
                                                          std::span<const AnalysisSettings> settings,
                                                          const ReportOptions& options);

/// NODE.summary.json for each of this node's traces; one that cannot be analysed has none.
void write_summaries(const std::filesystem::path& directory, const std::string& node, const AnalysisSettings& settings);

/// Writes one part of the merge for build_report(), which finds it in the directory: of nodes whose summaries are
/// missing these, too. Returns the number of nodes in it. Throws Error.
std::size_t write_merge_part(const std::filesystem::path& directory, PartNumber part, const ReportOptions& options,
                             std::vector<InputProblem>& problems);

}  // namespace reveal
