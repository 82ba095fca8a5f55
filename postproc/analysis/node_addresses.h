// The node of the job behind an address: the trace of one node has only the address of the other end of a connection.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "postproc/analysis/node_summary.h"

namespace reveal {

/// "" for an address that several nodes share.
using NodesByAddress = std::map<std::string, std::string, std::less<>>;
[[nodiscard]] NodesByAddress nodes_by_address(std::span<const NodeSummary> summaries);

/// Puts names of nodes in the place of their addresses in the findings' sentences. An address that several nodes have,
/// as that of a bridge for containers, names none of them. A peer that is no node is not named: its address stays in
/// the evidence alone.
void name_nodes(std::span<const NodeSummary> summaries, std::vector<Finding>& findings);

}  // namespace reveal
