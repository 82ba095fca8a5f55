#include "postproc/detect/pipelines/long_detection.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "postproc/detect/paper/episode_votes.h"
#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/detect/scan/counter_episodes.h"
#include "postproc/detect/scan/recurring.h"
#include "postproc/detect/windows/episode_contributions.h"
#include "postproc/detect/windows/window_episodes.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/coarser.h"

namespace reveal {

namespace {

constexpr std::size_t kShortestPiece = 1000;  // each read of a piece has its own cost
constexpr std::size_t kMostVotes = 100;       // episodes that the window detectors look at

}  // namespace

LongDetection::LongDetection(const Telemetry& job, std::size_t samples, const DetectOptions& options,
                             std::launch scanning)
    : job_(job),
      samples_(samples),
      options_(options),
      scale_(scan_scale(job.step_seconds)),
      grid_(window_grid(options.window_seconds, options.stride_seconds, job.step_seconds, 0, samples)),
      counters_(job.channels, job.step_seconds, scale_),
      scanning_(scanning) {
  std::size_t searched = 0;
  for (std::size_t factor = 1;; factor *= kCoarserScan) {
    Level level{.factor = factor, .blocks = {}, .window = {}, .coarser = {}};
    const std::size_t end = samples / factor - (trimmed_end(scale_) + factor - 1) / factor;
    level.blocks = blocks_of(trimmed_start(scale_) / factor, end, scale_);
    for (ScanBlock& block : level.blocks) block.factor = factor;
    searched += level.blocks.size();
    level.searched = searched;
    start_block(level, {});
    levels_.push_back(std::move(level));
    if (levels_.back().blocks.size() == 1) break;
  }
}

std::size_t LongDetection::piece_samples() const {
  return std::max(kShortestPiece, levels_.back().factor);
}

void LongDetection::add(const Telemetry& piece) {
  counters_.add(piece, 0);
  add(piece, 0);
}

void LongDetection::add(const Telemetry& piece, std::size_t level) {
  fill(piece, levels_[level]);
  if (level + 1 == levels_.size()) return;
  make_coarser(piece, kCoarserScan, levels_[level].coarser);
  add(levels_[level].coarser, level + 1);
}

Telemetry LongDetection::empty_window(const Level& level) const {
  return {.node = job_.node,
          .step_seconds = job_.step_seconds * static_cast<double>(level.factor),
          .begin_utc_ns = job_.begin_utc_ns,
          .samples = 0,
          .channels = job_.channels,
          .values = {}};
}

/// The window of the next block keeps what the two share, and one sample before: a level's first change. Its memory is
/// fresh: what is zero throughout the block is never there.
void LongDetection::start_block(Level& level, const Telemetry& before) const {
  const ScanBlock& block = level.blocks[level.next];
  const std::size_t offset = block.begin - std::min<std::size_t>(block.begin, 1);
  const std::size_t shared = before.samples == 0 ? 0 : level.offset + level.filled - offset;
  Telemetry window = empty_window(level);
  window.samples = block.end() - offset;
  window.values.resize(window.samples * window.channels.size());
  for (std::size_t c = 0; shared > 0 && c < window.channels.size(); ++c) {
    copy_onto_zeros(before.series(c).last(shared), window.series(c).first(shared));
  }
  level.window = std::move(window);
  level.offset = offset;
  level.filled = shared;
}

void LongDetection::fill(const Telemetry& piece, Level& level) {
  std::size_t from = 0;
  while (from < piece.samples && level.next < level.blocks.size()) {
    const std::size_t wanted = level.offset + level.filled;
    const std::size_t at = level.seen + from;
    if (at < wanted) {
      from += std::min(wanted - at, piece.samples - from);
      continue;
    }
    const std::size_t count = std::min(piece.samples - from, level.window.samples - level.filled);
    for (std::size_t c = 0; c < piece.channels.size(); ++c) {
      copy_onto_zeros(piece.series(c).subspan(from, count), level.window.series(c).subspan(level.filled, count));
    }
    level.filled += count;
    from += count;
    if (level.filled < level.window.samples) continue;
    scan(level);
  }
  level.seen += piece.samples;
}

void LongDetection::scan(Level& level) {
  Telemetry full = std::move(level.window);
  const auto look = [this, offset = level.offset, block = level.blocks[level.next],
                     searched = level.searched](const Telemetry& window) {
    return scan_block(window, offset, block, searched, scale_, kMaxReasons).episodes;
  };
  if (++level.next < level.blocks.size()) start_block(level, full);
  collect();  // one at a time: a scan needs as much memory as a window
  scanned_ = std::async(scanning_, [look, window = std::move(full)]() mutable {
    const Telemetry mine = std::move(window);  // gone when the scan is done
    return look(mine);
  });
  if (scanning_ == std::launch::deferred) collect();
}

/// Episodes come in the order in which blocks were filled, whoever scans them.
void LongDetection::collect() {
  if (!scanned_.valid()) return;
  for (Episode& episode : scanned_.get()) {
    describe(episode);
    result_.episodes.push_back(std::move(episode));
  }
#ifdef __GLIBC__
  // Else what one block needed for a moment stays with the process, in pieces too small for the next one.
  malloc_trim(0);
#endif
}

void LongDetection::describe(Episode& episode) const {
  name_windows(grid_, episode);
  episode.claim = claim_of(episode, job_.channels, job_.step_seconds);
  if (episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
  episode.reasons.shrink_to_fit();  // thousands of episodes may wait for the end of the job
}

Detection LongDetection::finish(const ReadAgain& read) {
  collect();
  const std::size_t blocks = levels_.front().blocks.size();
  levels_.clear();  // makes room for what is read again
  const std::size_t before = result_.episodes.size();
  add_counter_bursts(counters_.bursts(), job_.channels, scale_, result_.episodes);
  for (std::size_t i = before; i < result_.episodes.size(); ++i) describe(result_.episodes[i]);
  keep_best(result_.episodes, scale_);
  if (blocks > 1 && scale_.has_start_and_end) withdraw_recurring(job_.channels, result_.episodes);
  std::size_t votes = 0;
  for (Episode& episode : result_.episodes) {
    if (episode.tier == Tier::none || episode.methods.front() != Method::interval_scan || votes == kMostVotes) continue;
    ++votes;
    const VotingSpan span = voting_span(episode, samples_, scale_);
    const Telemetry around = read(span.begin, span.end - span.begin);
    add_votes(around, span.begin, span, options_, episode);
    if (votes > kMostExplained || job_.channels.size() > kMostVotingChannels) continue;
    add_contributions(around, options_, scale_.samples(kVotingSeconds), episode, span.begin);
  }
  return std::move(result_);
}

}  // namespace reveal
