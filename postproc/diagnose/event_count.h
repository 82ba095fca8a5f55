// Faults that the kernel counts one by one: how many a channel counted during the job, and between when and when.
#pragma once

#include <string_view>
#include <vector>

#include "postproc/diagnose/signals.h"

namespace reveal {

struct EventCount {
  std::size_t channel = 0;
  double total = 0;
  Interval at;  // from the first to the last
};

/// Returns the counts by falling total, without channels that counted nothing; throws Unavailable where the metric was
/// not measured.
[[nodiscard]] std::vector<EventCount> counted_events(const RuleContext& context, std::string_view metric);

/// `observed` events of one channel, in which usually there are none.
[[nodiscard]] Evidence evidence_of(const RuleContext& context, const EventCount& count);

}  // namespace reveal
