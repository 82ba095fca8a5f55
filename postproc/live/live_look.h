// One look of the detectors at a job that still runs: the scan of one block that ends now, the counters that ought to
// stand still, the window detectors' votes - the pieces of the default pipeline, with the same thresholds.
#pragma once

#include <cstddef>

#include "postproc/detect/episode.h"
#include "postproc/telemetry/row_store.h"

namespace reveal {

/// What a look sees of the job; the report's blocks are up to 25 minutes long.
inline constexpr std::chrono::seconds kLookBlock{600};

/// `blocks_before`: how many such blocks of the job went by. `ended`: nothing follows.
[[nodiscard]] Detection look_at(const LiveBlock& block, std::size_t blocks_before, bool ended);

}  // namespace reveal
