// On the way from or to which TCP peers segments were lost: one way of several is a fault between two nodes, all of
// them is the link of the node.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/elevation.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// What a row of tcp.peer.* tells has happened up to the row before.
inline constexpr double kPeerRowsLateSeconds = 2;
/// Segments; fewer are no loss to speak of.
inline constexpr double kLeastLost = 5;
/// In the evidence of what was lost on the way to a node, by peer.
inline constexpr std::string_view kMissedFromPeer = "tcp.peer.out_of_order";

enum class LossToward : std::uint8_t {
  here,   // the node received, and misses segments: tcp.peer.out_of_order
  there,  // the node sent, and sent again: tcp.peer.retransmits
};

/// Adds the peers to the finding's sentence and evidence, by their addresses. It leaves the finding as it is where they
/// were not measured, lost nothing to speak of, or lost so little of the finding's `excess` (per second, of everybody
/// on the node) that others than the job's connections did. `unusual`: intervals that do not tell the usual level.
void locate_loss(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> unusual,
                 LossToward toward, double excess);

/// Returns the addresses of a node's interfaces, from the facts of its trace.
[[nodiscard]] std::vector<std::string> addresses_in(const Snapshot& facts);

}  // namespace reveal
