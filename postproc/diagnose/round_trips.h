// Round trips to the job's peers tell a full queue from losses at random: packets that wait in a queue come back later,
// and connections that lose segments send less at once, so that less of it waits anywhere.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// Smoothed round trips of the connections to a peer, in ns: medians over time.
struct RoundTrips {
  std::string peer;
  double inside = 0;
  double usual = 0;

  [[nodiscard]] double ratio() const { return inside / usual; }
};

/// Returns the peer in the middle by its ratio (tcp.peer.rtt): of many peers, some become slower in any interval.
/// Nothing where no round trips to other nodes were measured inside and outside of the `unusual` intervals.
[[nodiscard]] std::optional<RoundTrips> round_trips(const RuleContext& context, Interval at,
                                                    std::span<const Interval> unusual);

[[nodiscard]] Evidence evidence_of(const RuleContext& context, const RoundTrips& trips, Interval at);

}  // namespace reveal
