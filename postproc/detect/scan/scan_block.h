// The interval scan of one block: samples of a job, or all of it, at one resolution, in which intervals are found that
// stand out. It is independent of other blocks, so the same code serves a job in memory, a trace of days read piece by
// piece, and a job that still runs. Only telemetry is carried from block to block: blocks overlap.
#pragma once

#include <cstddef>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/scan/interval_scan.h"
#include "postproc/detect/scan/scan_scale.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

inline constexpr double kWeakScore = 3.6;
inline constexpr double kShortSeconds = 5;           // an episode below is labelled SHORT
inline constexpr double kShortestStrongSeconds = 3;  // below, weak at most
inline constexpr double kApartSeconds = 2;           // closer episodes are one

/// A piece of a job, of one resolution.
struct ScanBlock {
  std::size_t begin = 0;  // sample of the job at this resolution
  std::size_t samples = 0;
  bool first = false;      // holds the job's start: intervals that begin with it are not reported
  bool last = false;       // holds its end
  bool running = false;    // ... so far: intervals up to it may go on and are no tear-down
  std::size_t factor = 1;  // the job's own samples in one of these

  [[nodiscard]] std::size_t end() const { return begin + samples; }
};

/// As few blocks as possible, as long as each other: up to 25 minutes, neighbours share 5.
[[nodiscard]] std::vector<ScanBlock> blocks_of(std::size_t begin, std::size_t end, const ScanScale& scale);

/// The scanned part of a job, without its imports and first allocations, and without its tear-down.
[[nodiscard]] std::size_t trimmed_start(const ScanScale& scale);
[[nodiscard]] std::size_t trimmed_end(const ScanScale& scale);

/// Jobs longer than a block are scanned again with so many samples in one, until one block holds the job.
inline constexpr std::size_t kCoarserScan = 10;

struct BlockScan {
  ScanBlock block;
  std::vector<Episode> episodes;          // on the job's own samples, without a claim and without windows
  std::vector<ScoredInterval> intervals;  // all that were scored, in samples of the block
  std::vector<ScoredInterval> chosen;     // the refined ones of the episodes, in samples of the block
};

/// `telemetry` holds the block; its first sample is `offset` of the job at this resolution. `searched`: blocks that are
/// looked at in all, since each is one more chance to find something strange. `filled`: reasons with their levels.
[[nodiscard]] BlockScan scan_block(const Telemetry& telemetry, std::size_t offset, const ScanBlock& block,
                                   std::size_t searched, const ScanScale& scale, std::size_t filled);

/// The better one of episodes that overlapping blocks, or two resolutions, both saw stays; by falling score.
void keep_best(std::vector<Episode>& episodes, const ScanScale& scale);

}  // namespace reveal
