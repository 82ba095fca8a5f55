#include "postproc/detect/paper/paper_pipeline.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "postproc/detect/paper/detector.h"
#include "postproc/detect/paper/pruning.h"
#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/numerics/percentile.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {

namespace {

constexpr double kFlaggedPercentile = 99;

/// Per retained channel the feature with the largest |z| in any window [first, last].
std::vector<Reason> largest_z(const WindowVotes& votes, std::size_t first, std::size_t last) {
  std::vector<Reason> reasons;
  for (std::size_t c = 0; c < votes.z.columns.size(); ++c) {
    const FeatureMatrix::Column& column = votes.z.columns[c];
    if (reasons.empty() || reasons.back().channel != column.channel) reasons.push_back({.channel = column.channel});
    for (std::size_t w = first; w <= last; ++w) {
      const double z = votes.z.values(static_cast<Eigen::Index>(w), static_cast<Eigen::Index>(c));
      if (std::abs(z) <= std::abs(reasons.back().z)) continue;
      reasons.back().z = z;
      reasons.back().feature = column.feature->name;
    }
  }
  for (Reason& reason : reasons) reason.share = std::abs(reason.z);
  sort_by_share(reasons);
  return reasons;
}

/// Votes plus the mean rank of the window (0..1) over the detectors: ranks break the ties of votes.
std::vector<double> rank_scores(const WindowVotes& votes) {
  std::vector<double> score(votes.grid.count);
  for (const std::vector<double>& method : votes.scores) {
    std::vector<double> sorted = method;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t w = 0; w < score.size(); ++w) {
      const auto rank = std::lower_bound(sorted.begin(), sorted.end(), method[w]) - sorted.begin();
      score[w] += static_cast<double>(rank) / static_cast<double>(score.size() * votes.scores.size());
    }
  }
  for (std::size_t w = 0; w < score.size(); ++w) score[w] += votes.agreement(w);
  return score;
}

Episode episode_of(const Telemetry& telemetry, const WindowVotes& votes, const std::vector<double>& score,
                   std::size_t first, std::size_t last, const DetectOptions& options) {
  Episode episode{.begin = votes.grid.first_sample(first),
                  .end = votes.grid.end_sample(last),
                  .first_window = first,
                  .last_window = last,
                  .tier = Tier::strong};
  for (std::size_t m = 0; m < votes.methods.size(); ++m) {
    const auto flags = votes.flags[m].begin();
    const auto begin = flags + static_cast<std::ptrdiff_t>(first);
    const auto end = flags + static_cast<std::ptrdiff_t>(last) + 1;
    if (std::find(begin, end, true) != end) episode.methods.push_back(votes.methods[m]);
  }
  episode.agreement = static_cast<int>(episode.methods.size());
  episode.score = *std::max_element(score.begin() + static_cast<std::ptrdiff_t>(first),
                                    score.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  episode.reasons = largest_z(votes, first, last);
  if (!options.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
  fill_levels(telemetry, episode.begin, episode.end, episode.reasons);
  if (!episode.reasons.empty()) {
    const Channel& channel = telemetry.channels[episode.reasons.front().channel];
    episode.subsystem = episode.second_subsystem = channel.subsystem;
    episode.claim = paper_claim(channel, episode.reasons.front());
  }
  return episode;
}

}  // namespace

int WindowVotes::agreement(std::size_t window) const {
  return static_cast<int>(std::count_if(flags.begin(), flags.end(), [&](const auto& flag) { return flag[window]; }));
}

bool is_summed_in_paper(const Channel& channel) {
  return counts_events(channel) || fact_of(channel.metric, &MetricFact::summed_in_paper);
}

WindowVotes window_votes(const Telemetry& telemetry, std::vector<std::size_t> channels, const DetectOptions& options,
                         const WindowGrid& grid) {
  WindowVotes votes{.grid = grid, .channels = std::move(channels)};
  votes.z = standardise(feature_matrix(telemetry, votes.channels, votes.grid, is_summed_in_paper));
  for (const Detector& detector : detectors()) {
    votes.methods.push_back(detector.method);
    votes.scores.push_back(detector.score(votes.z.values, options.seed));
    const double threshold = percentile(votes.scores.back(), kFlaggedPercentile);
    std::vector<bool> flags;
    for (const double score : votes.scores.back()) flags.push_back(score > threshold);
    votes.flags.push_back(std::move(flags));
  }
  return votes;
}

Detection detect_as_in_paper(const Telemetry& telemetry, const DetectOptions& options) {
  Detection detection;
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  if (grid.count < kLeastWindows) {
    detection.insufficient = too_short(telemetry.samples, least_samples(grid), telemetry.step_seconds);
    return detection;
  }
  const WindowVotes votes =
      window_votes(telemetry, prune(telemetry, 0, telemetry.samples, options.prune_above), options, grid);
  const std::vector<double> score = rank_scores(votes);

  for (std::size_t w = 0; w < grid.count; ++w) {
    if (votes.agreement(w) == 0) continue;
    std::size_t last = w;
    while (last + 1 < grid.count && votes.agreement(last + 1) > 0) ++last;
    detection.episodes.push_back(episode_of(telemetry, votes, score, w, last, options));
    w = last;
  }
  std::stable_sort(detection.episodes.begin(), detection.episodes.end(),
                   [](const Episode& a, const Episode& b) { return a.score > b.score; });

  for (std::size_t w = 0; options.keep_windows && w < grid.count; ++w) {
    WindowScore window{.begin = grid.first_sample(w), .end = grid.end_sample(w), .score = score[w]};
    window.agreement = votes.agreement(w);
    if (window.agreement > 0) window.tier = Tier::strong;
    if (options.every_channel) window.reasons = largest_z(votes, w, w);
    detection.windows.push_back(std::move(window));
  }
  return detection;
}

}  // namespace reveal
