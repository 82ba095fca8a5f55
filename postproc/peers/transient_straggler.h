// A node that the others waited for during a part of the job. Each node is its own control, so that two nodes are
// enough: the node with an own time that rose against the other's was waited for.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/peers/peers.h"

namespace reveal {

/// Traffic of a node, by which it is known whether a job went on that does not read and write all the time.
inline constexpr std::string_view kSentByNode = "net.tx_bytes";

/// Stretches in which one node's own time (running, ready, on a disk) rose against that of its peers, which slept
/// instead. Nodes that meet every few seconds only sleep in pieces too short for that: the detectors see these as one
/// interval, without a cause, among the findings of single nodes. Where own times wander, the traffic of all nodes
/// tells when they did less. None where all nodes did as much as usual meanwhile. A straggler of the whole job is
/// PeerComparison::straggler.
[[nodiscard]] std::vector<Finding> transient_stragglers(const PeerComparison& comparison,
                                                        std::span<const NodeProfile* const> nodes,
                                                        std::span<const Finding> found, const EffectiveRule& rule);

}  // namespace reveal
