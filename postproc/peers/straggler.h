// The node for which the others wait. Nodes of a synchronous job wait for the slowest, which does not wait itself: it
// spends most of its time on its own work. Run-queue wait is part of that own time; the sleep of a rank that is blocked
// in a receive is not. Ranks that poll while they wait look like ranks that work.
#pragma once

#include <vector>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/peers/peer_statistic.h"
#include "postproc/peers/peers.h"

namespace reveal {

/// `tests` of all columns of the group; `rule` is node.straggler.
[[nodiscard]] Straggler find_straggler(const GroupData& group, const std::vector<PeerTest>& tests,
                                       const EffectiveRule& rule);

}  // namespace reveal
