#include "postproc/detect/windows/window_scores.h"

#include <algorithm>
#include <utility>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/windows/window_episodes.h"

namespace reveal {

namespace {

bool is_of_windows(const Episode& episode) {
  return episode.methods.empty() ||
         (episode.methods.front() != Method::interval_scan && episode.methods.front() != Method::error_counters);
}

}  // namespace

WindowScores::WindowScores(const Telemetry& telemetry, const DetectOptions& options)
    : telemetry_(telemetry),
      options_(options),
      scale_(scan_scale(telemetry.step_seconds)),
      grid_(window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples)) {
  windows_.reserve(grid_.count);
  for (std::size_t w = 0; w < grid_.count; ++w) {
    windows_.push_back({.begin = grid_.first_sample(w), .end = grid_.end_sample(w)});
  }
}

/// A window's score: the best interval around its middle. Scanned intervals that overlap a refined one are rough
/// versions of it and would raise its neighbours.
void WindowScores::add(const BlockScan& found) {
  if (found.block.factor > 1) return;
  const auto middle_of = [&](std::size_t window) { return grid_.first_sample(window) + grid_.length / 2; };
  const auto raise = [&](const ScoredInterval& interval) {
    const std::size_t begin = found.block.begin + interval.begin;
    const std::size_t end = found.block.begin + interval.end;
    std::size_t w = begin > grid_.length / 2 ? (begin - grid_.length / 2 + grid_.stride - 1) / grid_.stride : 0;
    for (; w < windows_.size() && middle_of(w) < end; ++w) {
      windows_[w].score = std::max(windows_[w].score, interval.score);
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

void WindowScores::finish(Detection& detection) {
  if (ranked()) rank(detection);
  mark(detection);
  detection.windows = std::move(windows_);
}

/// Windows are ranked by all window detectors together. In a job the scan's score is added, so that an interval it
/// finds stands above single windows. On servers, sampled for days, adding it made the ranking worse (average
/// precision .67 to .65), and strange windows are episodes themselves.
void WindowScores::rank(Detection& detection) {
  const std::size_t begin = trimmed_start(scale_);
  const std::size_t end = telemetry_.samples - trimmed_end(scale_);
  WindowGrid grid = grid_;
  std::size_t first = 0;
  while (first < grid_.count && grid_.first_sample(first) < begin) ++first;
  grid.begin = grid_.first_sample(first);
  grid.count = 0;
  while (first + grid.count < grid_.count && grid_.end_sample(first + grid.count) <= end) ++grid.count;
  const WindowRanking ranking = rank_windows(telemetry_, grid, options_.seed, Explain::every_channel);
  const std::vector<double> score = raised_by_neighbours(ranking.score, grid);
  for (std::size_t w = 0; w < grid.count; ++w) {
    WindowScore& window = windows_[first + w];
    window.score = score[w] + (scale_.has_start_and_end ? window.score : 0);
    if (options_.every_channel) window.reasons = ranking.reasons[w];
  }
  if (!scale_.has_start_and_end && grid.count >= kLeastWindows) add_strange_windows(grid, ranking, detection);
}

void WindowScores::add_strange_windows(const WindowGrid& grid, const WindowRanking& ranking,
                                       Detection& detection) const {
  for (Episode& episode : window_episodes(telemetry_, grid, ranking)) {
    const auto overlaps = [&](const Episode& other) {
      return other.tier != Tier::none && episode.begin < other.end && other.begin < episode.end;
    };
    if (std::any_of(detection.episodes.begin(), detection.episodes.end(), overlaps)) continue;
    if (!options_.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
    detection.episodes.push_back(std::move(episode));
  }
  std::stable_sort(detection.episodes.begin(), detection.episodes.end(),
                   [](const Episode& a, const Episode& b) { return a.score > b.score; });
}

/// Windows of an interval have its tier, score and reasons; strange windows keep their own ranks and reasons.
void WindowScores::mark(const Detection& detection) {
  for (const Episode& episode : detection.episodes) {
    if (episode.tier == Tier::none) continue;
    for (std::size_t w = episode.first_window; w <= episode.last_window && w < windows_.size(); ++w) {
      WindowScore& window = windows_[w];
      if (window.tier != Tier::none) continue;  // episodes come by falling score
      window.tier = episode.tier;
      window.agreement = episode.agreement;
      if (is_of_windows(episode)) continue;
      window.score = std::max(window.score, episode.score);
      if (options_.every_channel) window.reasons = episode.reasons;
    }
  }
}

}  // namespace reveal
