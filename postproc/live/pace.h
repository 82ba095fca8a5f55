// The iterations per second of a running job, counted by its training steps or estimated from its rhythm, and the time
// that is left where the job states how many it makes.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "postproc/live/live_trace.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct Pace {
  double per_second = 0;  // 0: not known
  bool estimated = false;
  double done = std::numeric_limits<double>::quiet_NaN();  // since the begin of the job; NaN: not known
  std::int64_t planned = 0;                                // REVEAL_ITERATIONS of the job; 0: not stated

  [[nodiscard]] bool known() const { return per_second > 0; }
  [[nodiscard]] bool operator==(const Pace& other) const {
    const bool same_done = done == other.done || (std::isnan(done) && std::isnan(other.done));
    return per_second == other.per_second && estimated == other.estimated && same_done && planned == other.planned;
  }
};

/// "iteration 840 of 3000, 1.2/s, about 30 min left"; "" unless both numbers are known and the plan is not fulfilled.
[[nodiscard]] std::string words_of_progress(const Pace& pace);

/// The steps of the last 20 s, by the rank that made the most. Nothing where no steps are counted.
[[nodiscard]] std::optional<Pace> counted_pace(const Telemetry& calls);
/// Nothing where the job has no steady rhythm. Iterations are counted only in a block that holds the begin of the job:
/// from the time on at which it works as hard as later.
[[nodiscard]] std::optional<Pace> estimated_pace(const Telemetry& work, bool from_the_begin);
[[nodiscard]] std::optional<Pace> live_pace(const LiveTrace& trace);

}  // namespace reveal
