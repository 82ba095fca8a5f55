// Recurring phases of the job are not reported, even if they recur so rarely that no block of a long job holds it more
// than three times: a checkpoint every twenty minutes.
#pragma once

#include <span>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// More than three episodes of the scan that are alike (in the metrics that moved, their direction, and within a factor
/// of two in length) belong to the job: they are labelled RECURRING and lose their tier.
void withdraw_recurring(std::span<const Channel> channels, std::vector<Episode>& episodes);

}  // namespace reveal
