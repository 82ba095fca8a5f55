#include "postproc/live/live_look.h"

#include <algorithm>

#include "postproc/detect/paper/episode_votes.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/detect/scan/counter_episodes.h"
#include "postproc/detect/scan/error_counters.h"
#include "postproc/detect/scan/scan_block.h"
#include "postproc/features/window_grid.h"

namespace reveal {

Detection look_at(const LiveBlock& block, std::size_t blocks_before, bool ended) {
  const Telemetry& telemetry = block.telemetry;
  const ScanScale scale = scan_scale(telemetry.step_seconds);
  const DetectOptions options{.keep_windows = false};
  Detection detection;
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  const std::size_t begin = block.starts ? trimmed_start(scale) : 0;
  const std::size_t trimmed = begin + (ended ? trimmed_end(scale) : 0);
  if (grid.count < kLeastWindows || telemetry.samples <= trimmed) {
    detection.insufficient = "too short";
    return detection;
  }
  const ScanBlock scanned{
      .begin = begin, .samples = telemetry.samples - trimmed, .first = block.starts, .last = true, .running = !ended};
  detection.episodes = scan_block(telemetry, 0, scanned, blocks_before + 1, scale, kMaxReasons).episodes;
  for (Episode& episode : detection.episodes) {
    episode.claim = claim_of(episode, telemetry.channels, telemetry.step_seconds);
    if (episode.tier != Tier::none)
      add_votes(telemetry, 0, voting_span(episode, telemetry.samples, scale), options, episode);
  }
  const std::size_t scanned_episodes = detection.episodes.size();
  add_counter_bursts(counter_bursts(telemetry, scale), telemetry.channels, scale, detection.episodes);
  for (std::size_t i = scanned_episodes; i < detection.episodes.size(); ++i) {
    Episode& episode = detection.episodes[i];
    episode.claim = claim_of(episode, telemetry.channels, telemetry.step_seconds);
  }
  keep_best(detection.episodes, scale);
  return detection;
}

}  // namespace reveal
