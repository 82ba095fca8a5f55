// The iterations per second of a running job: counted by its training steps, or estimated from its rhythm.
#pragma once

#include <optional>

#include "postproc/live/live_trace.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct Pace {
  double per_second = 0;
  bool estimated = false;
};

/// The steps of the last 20 s, by the rank that made the most. Nothing where no steps are counted.
[[nodiscard]] std::optional<Pace> counted_pace(const Telemetry& calls);
/// Nothing where the job has no steady rhythm.
[[nodiscard]] std::optional<Pace> estimated_pace(const Telemetry& work);
[[nodiscard]] std::optional<Pace> live_pace(const LiveTrace& trace);

}  // namespace reveal
