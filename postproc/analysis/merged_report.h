// The parts of all nodes as one report, before its conclusions: what was found on the nodes, and between them.
#pragma once

#include <functional>
#include <vector>

#include "postproc/analysis/input_problems.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/analysis/report_options.h"
#include "postproc/peers/lateness.h"
#include "postproc/report/report.h"

namespace reveal {

/// Most parts are moved out of the summaries.
[[nodiscard]] Report merged_parts(std::vector<NodeSummary>& summaries, const std::vector<InputProblem>& problems,
                                  const ReportOptions& options, JobOutcome end = JobOutcome::not_known);

/// Reads again the lines of a node whose summary is kept without points.
using LinesOfNode = std::function<std::vector<TimelineChannel>(const NodeSummary&)>;

/// The evidence of the primary finding comes first, then its nodes; every line keeps its own place on the job's axis.
/// A line without points gets those that `again` has, which is asked once for each node with a line of the report. One
/// that is gone by then is left out, and counted in `omitted`.
void draw_timelines(const std::vector<NodeSummary>& summaries, const LinesOfNode& again, Report& report);

}  // namespace reveal
