// The positions of a node's Python threads while the other nodes waited for it: only the whole job shows which node is
// waited for, so the node's trace is opened once more.
#pragma once

#include <span>

#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/finding.h"
#include "postproc/telemetry/job.h"

namespace reveal {

/// For findings about one node that the comparison of nodes made. A trace that cannot be read any more adds nothing.
void add_straggler_threads(std::span<const ListedTrace> traces, std::span<const NodeSummary> summaries,
                           std::span<Finding> findings);

}  // namespace reveal
