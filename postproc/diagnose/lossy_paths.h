// The TCP peers from or to which segments were lost: loss on one path of several is a fault between two nodes, loss on
// all of them a fault of the node's link.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// A row of tcp.peer.* counts up to the row before.
inline constexpr double kPeerRowsLateSeconds = 2;
/// Segments; fewer are no relevant loss.
inline constexpr double kLeastLost = 5;
/// Evidence of segments lost on the path to a node, by peer.
inline constexpr std::string_view kMissedFromPeer = "tcp.peer.out_of_order";
/// Percentage of a peer's segments on the connections that are counted; not measured where all of them are.
inline constexpr std::string_view kPartCounted = "tcp.peer.coverage";

enum class LossDirection : std::uint8_t {
  received,  // the node missed segments: tcp.peer.out_of_order
  sent,      // the node sent segments again: tcp.peer.retransmits
  lost,      // the same less those that had arrived already: tcp.peer.duplicates
};

/// Adds the peers to the finding's sentence and evidence, by their addresses, and names those of which too small a part
/// was counted. It leaves the finding as it is where the others were not measured, lost nothing significant, or lost so
/// little of the finding's `excess` (per second, of all connections on the node) that other connections did. `unusual`:
/// intervals without the usual level.
void locate_loss(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> unusual,
                 LossDirection direction, double excess);

/// Not between nodes, and nothing is lost there.
[[nodiscard]] bool is_loopback(std::string_view address);

/// Returns the part of `excess` that the job's own connections lost (between 0 and 1), at most: a peer of which too
/// little was counted may have lost all of its segments. Nothing where they were not measured, the segments of such a
/// peer were not, no peer was counted well, or the loss is too small for those that were.
[[nodiscard]] std::optional<double> share_of_job(const RuleContext& context, Interval at,
                                                 std::span<const Interval> unusual, LossDirection direction,
                                                 double excess);

/// Returns the addresses of a node's interfaces, from the facts of its trace.
[[nodiscard]] std::vector<std::string> addresses_in(const Snapshot& facts);

}  // namespace reveal
