#include "postproc/detect/pipelines/interval_detection.h"

#include <algorithm>
#include <utility>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/detect/scan/counter_episodes.h"
#include "postproc/detect/scan/recurring.h"
#include "postproc/detect/windows/window_episodes.h"
#include "postproc/telemetry/coarser.h"

namespace reveal {

namespace {

constexpr double kShortestScan = 20;          // seconds
constexpr std::size_t kShortestPiece = 1000;  // each read of a piece has its own cost
/// Episodes that the window detectors check, the clearest first: .3 s each on 1,000 channels.
constexpr std::size_t kMostAsked = 20;
/// How many of these also get the channels that the detectors mean, unless windows are explained one by one.
constexpr std::size_t kMostExplained = 3;

}  // namespace

IntervalDetection::IntervalDetection(const Telemetry& job, std::size_t samples, const DetectOptions& options,
                                     Policy policy)
    : job_(job),
      samples_(samples),
      options_(options),
      policy_(policy),
      scale_(scan_scale(job.step_seconds)),
      grid_(window_grid(options.window_seconds, options.stride_seconds, job.step_seconds, 0, samples)),
      counters_(job.channels, job.step_seconds, scale_),
      reasons_(options.every_channel ? job.channels.size() : kMaxReasons),
      window_pool_(options.windows != nullptr ? *options.windows : own_windows_) {
  const std::size_t shortest = scale_.samples(kShortestScan);
  const std::size_t least = std::max(shortest, least_samples(grid_));
  if (samples < least) result_.insufficient = too_short(samples, least, job.step_seconds);
  if (samples >= shortest) plan_levels();
}

/// Events too long for a block are looked for on coarser and coarser samples, until one block holds the job.
void IntervalDetection::plan_levels() {
  const std::size_t start = policy_.starts ? trimmed_start(scale_) : 0;
  const std::size_t end = policy_.running ? 0 : trimmed_end(scale_);
  std::size_t searched = policy_.blocks_before;
  for (std::size_t factor = 1; levels_.empty() || levels_.back().blocks.size() > 1; factor *= kCoarserScan) {
    Level& level = levels_.emplace_back();
    level.factor = factor;
    level.blocks = blocks_of(start / factor, samples_ / factor - (end + factor - 1) / factor, scale_);
    level.blocks.front().first = policy_.starts;
    level.blocks.back().running = policy_.running;
    for (ScanBlock& block : level.blocks) block.factor = factor;
    searched += level.blocks.size();
    level.searched = searched;
  }
}

std::size_t IntervalDetection::piece_samples() const {
  return levels_.empty() ? kShortestPiece : std::max(kShortestPiece, levels_.back().factor);
}

void IntervalDetection::add(const Telemetry& piece) {
  if (levels_.empty()) return;
  counters_.add(piece);
  if (piece.samples == samples_) {
    whole_ = &piece;
    if (options_.keep_windows) windows_.emplace(piece, options_);
  }
  add(piece, 0);
}

void IntervalDetection::add(const Telemetry& piece, std::size_t level) {
  Level& mine = levels_[level];
  if (whole_ == nullptr) fill(piece, mine);
  for (std::size_t b = 0; whole_ != nullptr && b < mine.blocks.size(); ++b) {
    take(scan_block(piece, 0, mine.blocks[b], mine.searched, scale_, reasons_));
  }
  if (level + 1 == levels_.size()) return;
  make_coarser(piece, kCoarserScan, mine.coarser);
  add(mine.coarser, level + 1);
}

/// The window of the next block keeps the samples that the two share, and one sample before: a level's first change.
/// `before`: of the block before this one; its memory is used again where nobody looks at it any more.
void IntervalDetection::start_block(Level& level, SampleWindow& before, bool looked_at) {
  const ScanBlock& block = level.blocks[level.next];
  const std::size_t offset = block.begin - std::min<std::size_t>(block.begin, 1);
  const std::size_t samples = block.end() - offset;
  const std::size_t shared = before.telemetry().samples == 0 ? 0 : level.offset + level.filled - offset;
  if (!looked_at && before.telemetry().samples == samples) {
    level.window = std::move(before);
    level.window.keep_last(shared);
  } else {
    level.window = SampleWindow(window_pool_, job_, level.factor, samples);
    for (std::size_t c = 0; shared > 0 && c < job_.channels.size(); ++c) {
      level.window.put(c, 0, before.telemetry().series(c).last(shared));
    }
  }
  level.offset = offset;
  level.filled = shared;
}

void IntervalDetection::fill(const Telemetry& piece, Level& level) {
  std::size_t from = 0;
  if (level.seen == 0) {
    SampleWindow none;
    start_block(level, none, false);
  }
  while (from < piece.samples && level.next < level.blocks.size()) {
    const std::size_t wanted = level.offset + level.filled;
    const std::size_t at = level.seen + from;
    if (at < wanted) {
      from += std::min(wanted - at, piece.samples - from);
      continue;
    }
    const std::size_t window = level.window.telemetry().samples;
    const std::size_t count = std::min(piece.samples - from, window - level.filled);
    for (std::size_t c = 0; c < piece.channels.size(); ++c) {
      level.window.put(c, level.filled, piece.series(c).subspan(from, count));
    }
    level.filled += count;
    from += count;
    if (level.filled < window) continue;
    scan(level);
  }
  level.seen += piece.samples;
}

void IntervalDetection::scan(Level& level) {
  const auto look = [this, offset = level.offset, block = level.blocks[level.next],
                     searched = level.searched](const SampleWindow& window) {
    return scan_block(window.telemetry(), offset, block, searched, scale_, reasons_);
  };
  const bool more = ++level.next < level.blocks.size();
  if (!options_.in_background) {
    take(look(level.window));
    SampleWindow full = std::move(level.window);
    if (more) start_block(level, full, false);
    return window_pool_.give(std::move(full));
  }
  collect();  // one at a time: a scan needs as much memory as a window
  SampleWindow full = std::move(level.window);
  if (more) start_block(level, full, true);
  scanned_ = std::async(std::launch::async, [look, window = std::move(full)]() mutable {
    BlockScan found = look(window);
    return std::pair(std::move(found), std::move(window));
  });
}

void IntervalDetection::collect() {
  if (!scanned_.valid()) return;
  auto [found, window] = scanned_.get();
  window_pool_.give(std::move(window));
  take(std::move(found));
}

/// Blocks come in the order in which they were filled, whichever thread scans them.
void IntervalDetection::take(BlockScan found) {
  if (windows_) windows_->add(found);
  for (Episode& episode : found.episodes) {
    // In pieces, the samples of an interval that was seen on coarser ones are gone.
    if (whole_ != nullptr && found.block.factor > 1) fill_levels(*whole_, episode.begin, episode.end, episode.reasons);
    describe(episode);
    result_.episodes.push_back(std::move(episode));
  }
}

void IntervalDetection::describe(Episode& episode) const {
  name_windows(grid_, episode);
  episode.claim = claim_of(episode, job_.channels, job_.step_seconds);
  if (episode.reasons.size() > reasons_) episode.reasons.resize(reasons_);
  episode.reasons.shrink_to_fit();  // thousands of episodes may wait for the end of the job
}

void IntervalDetection::run_window_detectors(const ReadAgain& read) {
  const std::size_t explained = windows_ && windows_->ranked() ? 0 : kMostExplained;
  std::size_t asked = 0;
  for (Episode& episode : result_.episodes) {
    if (!deserves_second_opinion(episode)) continue;
    if (asked == kMostAsked) break;
    const SecondOpinion wanted = asked++ < explained ? SecondOpinion::methods_and_channels : SecondOpinion::methods;
    const Surroundings around = surroundings(episode, samples_, scale_);
    if (whole_ != nullptr) {
      add_second_opinion(*whole_, 0, around, options_, wanted, episode);
    } else {
      add_second_opinion(read(around.begin, around.end - around.begin), around.begin, around, options_, wanted,
                         episode);
    }
  }
}

Detection IntervalDetection::finish(const ReadAgain& read) {
  if (levels_.empty()) return std::move(result_);
  collect();
  const bool in_blocks = levels_.size() > 1;
  levels_.clear();
  own_windows_.free_all();  // where no other job takes them, for the data that is read again
  // Else a burst might be a witness of the copy of an episode that is dropped.
  keep_best(result_.episodes, scale_);
  const std::size_t scanned = result_.episodes.size();
  add_counter_bursts(counters_.bursts(), job_.channels, scale_, result_.episodes);
  for (std::size_t i = scanned; i < result_.episodes.size(); ++i) describe(result_.episodes[i]);
  keep_best(result_.episodes, scale_);
  // An endless stream has no phases of its own to learn.
  if (in_blocks && scale_.has_start_and_end) withdraw_recurring(job_.channels, result_.episodes);
  for (Episode& episode : result_.episodes) {
    if (!result_.insufficient.empty()) episode.tier = Tier::none;
  }
  if (policy_.second_opinion) run_window_detectors(read);
  if (windows_) windows_->finish(result_);
  return std::move(result_);
}

}  // namespace reveal
