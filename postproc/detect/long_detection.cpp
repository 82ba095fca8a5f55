#include "postproc/detect/long_detection.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "postproc/detect/attribution.h"
#include "postproc/detect/claim.h"
#include "postproc/detect/counter_episodes.h"
#include "postproc/detect/episode_votes.h"
#include "postproc/detect/window_episodes.h"
#include "postproc/merge/coarser.h"

namespace reveal {

namespace {

constexpr std::size_t kShortestPiece = 1000;  // each read of a piece has its own cost
constexpr std::size_t kMostVotes = 100;       // episodes that the window detectors look at

}  // namespace

LongDetection::LongDetection(const Telemetry& job, std::size_t samples, const DetectOptions& options)
    : job_(job),
      samples_(samples),
      options_(options),
      scale_(scan_scale(job.step_seconds)),
      grid_(window_grid(options.window_seconds, options.stride_seconds, job.step_seconds, 0, samples)),
      counters_(job.channels, job.step_seconds, scale_) {
  std::size_t searched = 0;
  for (std::size_t factor = 1;; factor *= kCoarserScan) {
    Level level{.factor = factor, .blocks = {}, .window = {}};
    const std::size_t end = samples / factor - (trimmed_end(scale_) + factor - 1) / factor;
    level.blocks = blocks_of(trimmed_start(scale_) / factor, end, scale_);
    for (ScanBlock& block : level.blocks) block.factor = factor;
    searched += level.blocks.size();
    level.searched = searched;
    level.window.node = job.node;
    level.window.step_seconds = job.step_seconds * static_cast<double>(factor);
    level.window.begin_utc_ns = job.begin_utc_ns;
    level.window.channels = job.channels;
    start_block(level);
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
  if (level + 1 < levels_.size()) add(coarser(piece, kCoarserScan), level + 1);
}

/// The window of the next block keeps what the two share, and one sample before: a level's first change.
void LongDetection::start_block(Level& level) const {
  const ScanBlock& block = level.blocks[level.next];
  const std::size_t offset = block.begin - std::min<std::size_t>(block.begin, 1);
  const std::size_t samples = block.end() - offset;
  Telemetry& window = level.window;
  const std::size_t shared = level.next == 0 ? 0 : level.offset + level.filled - offset;
  std::vector<double> other;  // blocks are as long as each other, so this is a rare case
  if (window.samples != samples) other.resize(samples * window.channels.size());
  for (std::size_t c = 0; c < window.channels.size(); ++c) {
    const std::span<double> values = std::span(other.empty() ? window.values : other).subspan(c * samples, samples);
    if (shared > 0) {
      const std::span<const double> known = std::as_const(window).series(c).last(shared);
      std::copy(known.begin(), known.end(), values.begin());
    }
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(shared), values.end(),
              std::numeric_limits<double>::quiet_NaN());
  }
  if (!other.empty()) window.values = std::move(other);
  window.samples = samples;
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
      const auto values = piece.series(c).subspan(from, count);
      std::copy(values.begin(), values.end(), level.window.series(c).subspan(level.filled).begin());
    }
    level.filled += count;
    from += count;
    if (level.filled < level.window.samples) continue;
    scan(level);
    if (++level.next < level.blocks.size()) start_block(level);
  }
  level.seen += piece.samples;
}

void LongDetection::scan(Level& level) {
  BlockScan found = scan_block(level.window, level.offset, level.blocks[level.next], level.searched, scale_);
  for (Episode& episode : found.episodes) {
    describe(episode);
    result_.episodes.push_back(std::move(episode));
  }
}

void LongDetection::describe(Episode& episode) const {
  name_windows(grid_, episode);
  episode.claim = claim_of(episode, job_.channels, job_.step_seconds);
  if (episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
}

Detection LongDetection::finish(const ReadAgain& read) {
  levels_.clear();  // makes room for what is read again
  const std::size_t before = result_.episodes.size();
  add_counter_bursts(counters_.bursts(), job_.channels, scale_, result_.episodes);
  for (std::size_t i = before; i < result_.episodes.size(); ++i) describe(result_.episodes[i]);
  keep_best(result_.episodes, scale_);
  std::size_t votes = 0;
  for (Episode& episode : result_.episodes) {
    if (episode.tier == Tier::none || episode.methods.front() != "GAP" || votes++ == kMostVotes) continue;
    const VotingSpan span = voting_span(episode, samples_, scale_);
    add_votes(read(span.begin, span.end - span.begin), span.begin, span, options_, episode);
  }
  return std::move(result_);
}

}  // namespace reveal
