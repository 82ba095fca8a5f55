// The choices of a caller about a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "postproc/analysis/job_history.h"
#include "postproc/analysis/merge_part.h"
#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

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

}  // namespace reveal
