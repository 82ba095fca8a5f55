// The result of the window detectors for an interval that the scan found: the detectors with a high score in it, and
// the channels that contribute to these scores. Shown beside the interval; it decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "postproc/detect/episode.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The samples that the detectors read: the minutes around an episode, within [0, samples).
struct Surroundings {
  std::size_t begin = 0;
  std::size_t end = 0;
};
[[nodiscard]] Surroundings surroundings(const Episode& episode, std::size_t samples, const ScanScale& scale);

/// True for a strong or weak interval of the scan, in reports and in alerts. Others (the job's start, recurring ones)
/// are not reported, and the single counter of a burst does not stand out in windows of hundreds of channels.
[[nodiscard]] bool deserves_second_opinion(const Episode& episode);

enum class SecondOpinion : std::uint8_t { methods, methods_and_channels };

/// Adds to the episode's methods the detectors for which a window inside it is among the highest scores; with channels,
/// also the contributions for these detectors (those of the others are noise). Adds nothing where there are too few
/// windows or too many channels. `offset`: of the telemetry's first sample in the job; the telemetry holds `around`.
void add_second_opinion(const Telemetry& telemetry, std::size_t offset, const Surroundings& around,
                        const DetectOptions& options, SecondOpinion wanted, Episode& episode);

}  // namespace reveal
