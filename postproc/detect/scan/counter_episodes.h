// Errors, drops and kills as episodes: by value, since one counter does not move a scan of hundreds.
#pragma once

#include <span>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/scan/error_counters.h"
#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// A burst near an episode is one more witness of it, any other an episode of its own (without a claim and windows).
void add_counter_bursts(std::span<const CounterBurst> bursts, std::span<const Channel> channels, const ScanScale& scale,
                        std::vector<Episode>& episodes);

}  // namespace reveal
