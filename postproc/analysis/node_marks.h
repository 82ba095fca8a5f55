// Single happenings of a job, as its timeline shows them: processes of ranks, steps of Slurm and of a training, faults
// of devices, out-of-memory kills, changed settings.
#pragma once

#include <vector>

#include "postproc/analysis/node_summary.h"
#include "postproc/telemetry/load.h"

namespace reveal {

/// At most 30, by time. `telemetry` is that of the trace, or the same with longer steps of the grid.
[[nodiscard]] std::vector<ReportMark> node_marks(const NodeTrace& trace, const Telemetry& telemetry);

/// The marks of all nodes, at most 200, and some steps of a training: the same one on several nodes at the same time is
/// one.
[[nodiscard]] std::vector<ReportMark> job_marks(const std::vector<NodeSummary>& summaries);

}  // namespace reveal
