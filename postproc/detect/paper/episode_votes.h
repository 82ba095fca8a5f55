// The window detectors' second opinion on an episode: shown beside it, decides nothing.
#pragma once

#include <cstddef>

#include "postproc/detect/episode.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

inline constexpr double kVotingSeconds = 150;             // before and after an episode
inline constexpr std::size_t kMostVotingChannels = 5000;  // their pruning compares all with all

/// Samples that the window detectors look at: the minutes around the episode, within [0, samples).
struct VotingSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};
[[nodiscard]] VotingSpan voting_span(const Episode& episode, std::size_t samples, const ScanScale& scale);

/// Adds the names of those that flag a window inside the episode. `offset`: of the telemetry's first sample in the job;
/// the telemetry holds the span.
void add_votes(const Telemetry& telemetry, std::size_t offset, const VotingSpan& span, const DetectOptions& options,
               Episode& episode);

}  // namespace reveal
