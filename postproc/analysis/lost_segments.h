// Whether the segments that a node missed were lost. Segments that overtake each other look the same to the receiver;
// the sender's counters distinguish them, and the merge has the summaries of both.
#pragma once

#include <span>
#include <vector>

#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/analysis_settings.h"

namespace reveal {

/// Takes back findings of lost segments where the senders counted that nearly all retransmitted segments had arrived,
/// and adds the senders' count to the others. A finding stays as it is where a peer that it names is no recorded node
/// of the job, or did not count. Losses that only their sender found become those of the node to which the segments
/// went. Where a sender was slow itself, the lower rate does not prove that a port was the limit, and its cost cannot
/// be attributed.
void compare_with_senders(std::span<const NodeSummary> summaries, const AnalysisSettings& settings,
                          std::vector<Finding>& findings);

}  // namespace reveal
