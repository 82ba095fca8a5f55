#include "postproc/detect/pipelines/reveal_pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "postproc/detect/paper/episode_votes.h"
#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/detect/scan/counter_episodes.h"
#include "postproc/detect/scan/recurring.h"
#include "postproc/detect/scan/scan_block.h"
#include "postproc/detect/windows/ensemble.h"
#include "postproc/detect/windows/episode_contributions.h"
#include "postproc/detect/windows/window_episodes.h"
#include "postproc/telemetry/coarser.h"

namespace reveal {

namespace {

constexpr double kShortestScan = 20;  // seconds

class GapDetection {
 public:
  GapDetection(const Telemetry& telemetry, const DetectOptions& options)
      : telemetry_(telemetry), options_(options), scale_(scan_scale(telemetry.step_seconds)) {
    grid_ = window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  }

  Detection run() {
    const std::size_t shortest_scan = scale_.samples(kShortestScan);
    const std::size_t least = std::max(shortest_scan, least_samples(grid_));
    if (telemetry_.samples < least) {
      result_.insufficient = too_short(telemetry_.samples, least, telemetry_.step_seconds);
    }
    if (telemetry_.samples < shortest_scan) return std::move(result_);
    if (options_.keep_windows) start_windows();
    scan_job();
    add_bursts();
    keep_best(result_.episodes, scale_);
    // An endless stream has no phases of its own to learn.
    if (searched_ > 1 && scale_.has_start_and_end) withdraw_recurring(telemetry_.channels, result_.episodes);
    vote();
    if (!result_.insufficient.empty()) {
      for (Episode& episode : result_.episodes) episode.tier = Tier::none;
    }
    explain();
    if (options_.every_channel || !scale_.has_start_and_end) {
      rank(trimmed_start(scale_), telemetry_.samples - trimmed_end(scale_));
    }
    if (options_.keep_windows) finish_windows();
    return std::move(result_);
  }

 private:
  void start_windows() {
    for (std::size_t w = 0; w < grid_.count; ++w) {
      result_.windows.push_back({.begin = grid_.first_sample(w), .end = grid_.end_sample(w)});
    }
  }

  void scan_job() {
    std::vector<ScanBlock> blocks = blocks_of(trimmed_start(scale_), telemetry_.samples - trimmed_end(scale_), scale_);
    searched_ = blocks.size();
    for (const ScanBlock& block : blocks) scan(telemetry_, block);

    // Events too long for a block, on coarser and coarser samples until one block holds the job.
    Telemetry coarse;
    const Telemetry* finer = &telemetry_;
    for (std::size_t factor = kCoarserScan; blocks.size() > 1; factor *= kCoarserScan) {
      coarse = coarser(*finer, kCoarserScan);
      finer = &coarse;
      blocks = blocks_of(trimmed_start(scale_) / factor, coarse.samples - (trimmed_end(scale_) + factor - 1) / factor,
                         scale_);
      searched_ += blocks.size();
      for (ScanBlock& block : blocks) {
        block.factor = factor;
        scan(coarse, block);
      }
    }
  }

  void scan(const Telemetry& telemetry, const ScanBlock& block) {
    const std::size_t filled = options_.every_channel ? telemetry.channels.size() : kMaxReasons;
    BlockScan found = scan_block(telemetry, 0, block, searched_, scale_, filled);
    if (block.factor == 1 && options_.keep_windows) score_windows(block, found);
    for (Episode& episode : found.episodes) {
      if (block.factor > 1) fill_levels(telemetry_, episode.begin, episode.end, episode.reasons);
      describe(episode);
      result_.episodes.push_back(std::move(episode));
    }
  }

  void add_bursts() {
    const std::size_t before = result_.episodes.size();
    add_counter_bursts(counter_bursts(telemetry_, scale_), telemetry_.channels, scale_, result_.episodes);
    for (std::size_t i = before; i < result_.episodes.size(); ++i) describe(result_.episodes[i]);
  }

  void vote() {
    for (Episode& episode : result_.episodes) {
      if (has_label(episode, Label::edge) || episode.methods.front() != Method::interval_scan) continue;
      add_votes(telemetry_, 0, voting_span(episode, telemetry_.samples, scale_), options_, episode);
    }
  }

  void describe(Episode& episode) const {
    name_windows(grid_, episode);
    episode.claim = claim_of(episode, telemetry_.channels, telemetry_.step_seconds);
    if (!options_.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
  }

  /// What the window detectors mean by the strongest episodes; ranked windows say it themselves.
  void explain() {
    if (options_.every_channel || !scale_.has_start_and_end || telemetry_.channels.size() > kMostVotingChannels) return;
    std::size_t left = kMostExplained;
    for (Episode& episode : result_.episodes) {
      if (episode.tier == Tier::none || left == 0) continue;
      add_contributions(telemetry_, options_, scale_.samples(kVotingSeconds), episode);
      --left;
    }
  }

  /// A window's score: the best interval around its middle. Scanned intervals that overlap a refined one are rough
  /// versions of it and would raise its neighbours.
  void score_windows(const ScanBlock& block, const BlockScan& found) {
    const auto raise = [&](const ScoredInterval& interval) {
      const std::size_t begin = block.begin + interval.begin;
      const std::size_t end = block.begin + interval.end;
      std::size_t w = begin > grid_.length / 2 ? (begin - grid_.length / 2 + grid_.stride - 1) / grid_.stride : 0;
      for (; w < grid_.count && middle_of(w) < end; ++w) {
        result_.windows[w].score = std::max(result_.windows[w].score, interval.score);
      }
    };
    for (const ScoredInterval& interval : found.intervals) {
      const auto overlaps = [&](const ScoredInterval& other) {
        return interval.begin < other.end && other.begin < interval.end;
      };
      if (interval.score > 0 && std::none_of(found.chosen.begin(), found.chosen.end(), overlaps)) raise(interval);
    }
    for (const ScoredInterval& interval : found.chosen) raise(interval);
  }

  /// Windows are ranked by all window detectors together. In a job the scan's score is added, so that an interval it
  /// finds stands above single windows. On servers, sampled for days, adding it made the ranking worse (average
  /// precision .67 to .65), and strange windows are episodes themselves.
  void rank(std::size_t begin, std::size_t end) {
    WindowGrid grid = grid_;
    std::size_t first = 0;
    while (first < grid_.count && grid_.first_sample(first) < begin) ++first;
    grid.begin = grid_.first_sample(first);
    grid.count = 0;
    while (first + grid.count < grid_.count && grid_.end_sample(first + grid.count) <= end) ++grid.count;
    const WindowRanking ranking = rank_windows(telemetry_, grid, options_.seed, Explain::every_channel);
    const std::vector<double> score = raised_by_neighbours(ranking.score, grid);
    for (std::size_t w = 0; options_.keep_windows && w < grid.count; ++w) {
      WindowScore& window = result_.windows[first + w];
      window.score = score[w] + (scale_.has_start_and_end ? window.score : 0);
      if (options_.every_channel) window.reasons = ranking.reasons[w];
    }
    if (scale_.has_start_and_end || grid.count < kLeastWindows) return;
    for (Episode& episode : window_episodes(telemetry_, grid, ranking)) {
      const auto overlaps = [&](const Episode& other) {
        return other.tier != Tier::none && episode.begin < other.end && other.begin < episode.end;
      };
      if (std::any_of(result_.episodes.begin(), result_.episodes.end(), overlaps)) continue;
      if (!options_.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
      result_.episodes.push_back(std::move(episode));
    }
    std::stable_sort(result_.episodes.begin(), result_.episodes.end(),
                     [](const Episode& a, const Episode& b) { return a.score > b.score; });
  }

  void finish_windows() {
    for (const Episode& episode : result_.episodes) {
      if (episode.tier == Tier::none) continue;
      for (std::size_t w = episode.first_window; w <= episode.last_window && w < grid_.count; ++w) {
        WindowScore& window = result_.windows[w];
        if (window.tier != Tier::none) continue;  // episodes come by falling score
        window.tier = episode.tier;
        window.agreement = episode.agreement;
        if (episode.methods.empty() ||
            (episode.methods.front() != Method::interval_scan && episode.methods.front() != Method::error_counters))
          continue;  // strange windows keep their own ranks and reasons
        window.score = std::max(window.score, episode.score);
        if (options_.every_channel) window.reasons = episode.reasons;
      }
    }
  }

  [[nodiscard]] std::size_t middle_of(std::size_t window) const {
    return grid_.first_sample(window) + grid_.length / 2;
  }

  const Telemetry& telemetry_;
  const DetectOptions& options_;
  ScanScale scale_;
  WindowGrid grid_;
  std::size_t searched_ = 1;  // blocks
  Detection result_;
};

}  // namespace

Detection detect_by_gap_scan(const Telemetry& telemetry, const DetectOptions& options) {
  return GapDetection(telemetry, options).run();
}

}  // namespace reveal
