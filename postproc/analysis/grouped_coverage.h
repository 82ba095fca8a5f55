// The coverage of thousands of nodes in a few entries.
#pragma once

#include <vector>

#include "postproc/report/report.h"

namespace reveal {

/// Nodes with equal coverage share one entry: the samples are those of the node with the smallest share of them, the
/// clock error is the largest. Nodes that have nearly all of their samples count as equal.
[[nodiscard]] std::vector<NodeCoverage> grouped_coverage(std::vector<NodeCoverage> coverage);

}  // namespace reveal
