// Two nodes of one run differ, and are no majority: earlier runs of the same job may show which of their values is the
// usual one.
#pragma once

#include <vector>

#include "postproc/diagnose/finding.h"
#include "postproc/history/run_record.h"

namespace reveal {

/// Names the node with values unlike those of earlier healthy runs in the findings of node.pair_differs; leaves
/// findings that these runs do not decide.
void name_unusual_nodes(const RunRecord& run, const std::vector<RunRecord>& earlier, std::vector<Finding>& findings);

}  // namespace reveal
