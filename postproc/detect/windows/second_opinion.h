// What the window detectors say about an interval that the scan found: whether each of them sees it, and which channels
// it means. Shown beside the interval; it decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "postproc/detect/episode.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The samples that the detectors look at: the minutes around an episode, within [0, samples).
struct Surroundings {
  std::size_t begin = 0;
  std::size_t end = 0;
};
[[nodiscard]] Surroundings surroundings(const Episode& episode, std::size_t samples, const ScanScale& scale);

/// The one rule, whoever asks: an interval that the scan found and that may be news. What is none (the job's start,
/// what recurs) needs no witness, and the one counter of a burst is nothing that windows of hundreds of channels could
/// show.
[[nodiscard]] bool deserves_second_opinion(const Episode& episode);

enum class Opinion : std::uint8_t { votes, votes_and_channels };

/// Adds to the episode's methods those detectors of which a window inside it is among their strangest; with channels,
/// these also fill its contributions (what a detector means that sees nothing is noise). Says nothing where there are
/// too few windows or too many channels. `offset`: of the telemetry's first sample in the job; the telemetry holds
/// `around`.
void add_second_opinion(const Telemetry& telemetry, std::size_t offset, const Surroundings& around,
                        const DetectOptions& options, Opinion wanted, Episode& episode);

}  // namespace reveal
