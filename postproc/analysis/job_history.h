// This run's record, and the search for earlier ones: what `reveal report` does with a directory's past.
#pragma once

#include <filesystem>
#include <vector>

#include "postproc/analysis/job_report.h"

namespace reveal {

/// Fills report.history and appends its findings, writes run.json and brings the index up to date. Whatever fails, the
/// report is whole: the line about earlier runs says why, and `problems` gets one line where something was damaged.
void add_history(const std::filesystem::path& directory, const std::vector<NodeSummary>& summaries,
                 const HistoryOptions& options, const AnalysisSettings& settings, Report& report,
                 std::vector<InputProblem>& problems);

}  // namespace reveal
