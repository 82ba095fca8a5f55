// Which channels each window detector means by an episode: why detectors that agree on the time may disagree on the
// reason.
#pragma once

#include "postproc/detect/episode.h"
#include "postproc/detect/pipeline.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

inline constexpr std::size_t kMostExplained =
    3;  // episodes of a job; each costs one more pass over minutes of telemetry

/// Fills Episode::contributions from the windows inside the episode, against those of `around` samples before and after
/// it; leaves them empty where there are too few windows. `offset`: of the telemetry's first sample in the job.
void add_contributions(const Telemetry& telemetry, const DetectOptions& options, std::size_t around, Episode& episode,
                       std::size_t offset = 0);

}  // namespace reveal
