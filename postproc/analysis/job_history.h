// This run's record, and the search for earlier ones: the part of `reveal report` about a directory's past.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "postproc/analysis/input_problems.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/history/run_index.h"
#include "postproc/history/run_record.h"
#include "postproc/report/report.h"

namespace reveal {

/// Whether and where earlier runs are looked for. As it is built, nowhere: tests must not meet a user's own runs.
struct HistoryOptions {
  bool enabled = false;
  std::string why_not = "it was not requested";  // enabled
  StatePlace state;  // place of the index; without one only the runs beside this one are known
};

/// The options for a program of the user: [report] history, and none as root.
[[nodiscard]] HistoryOptions history_options(const AnalysisSettings& settings);

/// This run as the history keeps it for later ones.
struct KeptRun {
  std::filesystem::path place;
  RunRecord record;
  std::string without_index;  // why only the runs beside it are known, or ""
};

/// Fills report.history and appends its findings. After any failure the report is still complete: the line about
/// earlier runs has the reason, and `problems` gets one line if a file was damaged. Nothing for a run that is not
/// recorded in a history.
[[nodiscard]] std::optional<KeptRun> compare_with_earlier(const std::filesystem::path& directory,
                                                          const std::vector<NodeSummary>& summaries,
                                                          const HistoryOptions& options,
                                                          const AnalysisSettings& settings, Report& report,
                                                          std::vector<InputProblem>& problems);

/// Once the report is judged: writes run.json and brings the index up to date. Only a normal run becomes a baseline.
void keep_run(KeptRun run, const HistoryOptions& options, Report& report, std::vector<InputProblem>& problems);

}  // namespace reveal
