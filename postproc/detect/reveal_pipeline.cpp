#include "postproc/detect/reveal_pipeline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "postproc/detect/attribution.h"
#include "postproc/detect/claim.h"
#include "postproc/detect/ensemble.h"
#include "postproc/detect/gap_scan.h"
#include "postproc/detect/paper_pipeline.h"
#include "postproc/detect/scan_series.h"
#include "postproc/detect/window_episodes.h"

namespace reveal {

namespace {

// Measured on ten healthy and 21 disturbed jobs of one machine: a score of 5.2 is reached by about one healthy job in
// twenty, 3.6 by weak disturbances too.
constexpr double kFinding = 5.2;
constexpr double kNotice = 3.6;
constexpr double kFurther = 0.6;  // of the best score

constexpr double kTrimStartSeconds = 5;  // imports, first allocation
constexpr double kTrimEndSeconds = 2.5;  // tear-down
constexpr double kEdgeSeconds = 1.5;     // an interval that begins this early is still the start
constexpr double kApartSeconds = 2;
constexpr double kBlockSeconds = 1200;  // longer jobs are scanned in blocks that overlap by half
constexpr double kShortestSeconds = 5;
constexpr double kMaxShare = 0.4;
constexpr std::size_t kEpisodesPerBlock = 10;
constexpr std::size_t kMinVotingWindows = 30;

Tier tier_of(double score) {
  if (score >= kFinding) return Tier::finding;
  return score >= kNotice ? Tier::notice : Tier::none;
}

struct Block {
  std::size_t begin = 0;  // sample of the telemetry
  std::size_t samples = 0;
  bool first = false;
};

std::vector<Block> blocks_of(std::size_t begin, std::size_t end, const ScanScale& scale) {
  const std::size_t length = scale.samples(kBlockSeconds);
  if (end - begin <= length) return {{begin, end - begin, true}};
  std::vector<Block> blocks;
  for (std::size_t b = begin; b + length < end; b += length / 2) blocks.push_back({b, length, b == begin});
  blocks.push_back({end - length, length, false});
  return blocks;
}

/// Intervals of one block that stand out, refined; those at the job's start come with the label EDGE and no tier.
struct Selected {
  ScoredInterval interval;
  bool edge = false;
};

std::vector<Selected> select(const ScanInput& input, std::vector<ScoredInterval> candidates, const ScanScale& scale,
                             bool at_start) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const ScoredInterval& a, const ScoredInterval& b) { return a.score > b.score; });
  const std::size_t apart = scale.samples(kApartSeconds);
  const std::size_t edge = at_start && scale.has_start_and_end ? scale.samples(kEdgeSeconds) : 0;
  std::vector<Selected> selected;
  std::vector<ScoredInterval> taken;
  double best = 0;
  const auto near_taken = [&](const ScoredInterval& interval) {
    return std::any_of(taken.begin(), taken.end(), [&](const ScoredInterval& other) {
      return interval.begin < other.end + apart && other.begin < interval.end + apart;
    });
  };
  const auto note_edge = [&](const ScoredInterval& interval) {
    const auto is_edge = [](const Selected& s) { return s.edge; };
    if (std::none_of(selected.begin(), selected.end(), is_edge)) selected.push_back({interval, true});
  };
  for (const ScoredInterval& candidate : candidates) {
    if (candidate.score < kNotice || candidate.score < kFurther * best || taken.size() == kEpisodesPerBlock) break;
    if (near_taken(candidate)) continue;
    if (candidate.begin < edge) {
      note_edge(candidate);
      continue;
    }
    ScoredInterval refined = refine(input, candidate, scale);
    if (near_taken(refined)) refined = candidate;
    taken.push_back(refined);
    if (refined.begin < edge) {
      note_edge(refined);
    } else {
      selected.push_back({refined, false});
      best = std::max(best, refined.score);
    }
  }
  return selected;
}

class GapDetection {
 public:
  GapDetection(const Telemetry& telemetry, const DetectOptions& options)
      : telemetry_(telemetry), options_(options), scale_(scan_scale(telemetry.step_seconds)) {
    grid_ = window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  }

  Detection run() {
    const std::size_t trim_start = scale_.has_start_and_end ? scale_.samples(kTrimStartSeconds) : 0;
    const std::size_t trim_end = scale_.has_start_and_end ? scale_.samples(kTrimEndSeconds) : 0;
    const auto needed =
        static_cast<std::size_t>(std::ceil(static_cast<double>(scale_.samples(kShortestSeconds)) / kMaxShare)) +
        trim_start + trim_end;
    if (telemetry_.samples < needed) {
      result_.insufficient = fmt::format("{:.1f} s recorded, at least {:.0f} s are needed",
                                         static_cast<double>(telemetry_.samples) * telemetry_.step_seconds,
                                         std::ceil(static_cast<double>(needed) * telemetry_.step_seconds));
      return std::move(result_);
    }
    if (options_.keep_windows) start_windows();
    for (const Block& block : blocks_of(trim_start, telemetry_.samples - trim_end, scale_)) scan(block);
    keep_best();
    if (options_.every_channel || !scale_.has_start_and_end) rank(trim_start, telemetry_.samples - trim_end);
    if (options_.keep_windows) finish_windows();
    return std::move(result_);
  }

 private:
  void start_windows() {
    for (std::size_t w = 0; w < grid_.count; ++w) {
      result_.windows.push_back({.begin = grid_.first_sample(w), .end = grid_.end_sample(w)});
    }
  }

  void scan(const Block& block) {
    ScanInput input = scan_input(telemetry_, block.begin, block.samples, scale_);
    const SeriesCorrelation correlation(input, scale_);
    mark_detecting(input, correlation);
    const std::vector<ScoredInterval> intervals = scan_intervals(input, scan_options(scale_, block.samples));
    const std::vector<Selected> chosen = select(input, intervals, scale_, block.first);
    if (options_.keep_windows) score_windows(block, intervals, chosen);

    std::optional<WindowVotes> votes;
    for (const Selected& selected : chosen) {
      Episode episode = episode_of(block, input, correlation, selected);
      if (!selected.edge) {
        if (!votes) votes = votes_of(block);
        add_votes(*votes, episode);
      }
      result_.episodes.push_back(std::move(episode));
    }
  }

  Episode episode_of(const Block& block, const ScanInput& input, const SeriesCorrelation& correlation,
                     const Selected& selected) const {
    const ScoredInterval& interval = selected.interval;
    Attribution attribution = attribute(telemetry_, input, correlation, block.begin, interval, scale_);
    Episode episode{.begin = block.begin + interval.begin,
                    .end = block.begin + interval.end,
                    .methods = {"GAP"},
                    .agreement = 1,
                    .score = interval.score,
                    .tier = selected.edge ? Tier::none : tier_of(interval.score),
                    .subsystem = attribution.subsystem,
                    .second_subsystem = attribution.second_subsystem,
                    .reasons = std::move(attribution.reasons)};
    if (selected.edge) episode.labels.emplace_back("EDGE");
    name_windows(episode);
    episode.claim = claim_of(episode);
    if (!options_.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
    return episode;
  }

  /// Windows of which at least half lies in the episode; the nearest one when there is none.
  void name_windows(Episode& episode) const {
    if (grid_.count == 0) return;
    const auto window_at = [&](std::size_t sample) {
      return std::min(grid_.count - 1, (sample - std::min(sample, grid_.length / 2)) / grid_.stride);
    };
    episode.first_window = window_at(episode.begin + grid_.stride - 1);
    episode.last_window = std::max(episode.first_window, window_at(episode.end));
  }

  /// The strongest reason of the subsystem named, if possible one whose two numbers say it without a peer.
  [[nodiscard]] std::string claim_of(const Episode& episode) const {
    const Reason* chosen = nullptr;
    for (const Reason& reason : episode.reasons) {
      if (telemetry_.channels[reason.channel].subsystem != episode.subsystem) continue;
      if (chosen == nullptr) chosen = &reason;
      const bool plain = reason.feature == "mean" || reason.feature == "level";
      if (!plain || std::isnan(reason.expected) || reason.share < 0.5 * chosen->share) continue;
      chosen = &reason;
      break;
    }
    if (chosen == nullptr) return {};
    const double seconds = static_cast<double>(episode.end - episode.begin) * telemetry_.step_seconds;
    return plain_claim(telemetry_.channels[chosen->channel], *chosen, seconds);
  }

  [[nodiscard]] WindowVotes votes_of(const Block& block) const {
    const WindowGrid grid = window_grid(options_.window_seconds, options_.stride_seconds, telemetry_.step_seconds,
                                        block.begin, block.samples);
    if (grid.count < kMinVotingWindows) return {.grid = grid};
    return window_votes(telemetry_, options_, block.begin, block.samples);
  }

  static void add_votes(const WindowVotes& votes, Episode& episode) {
    for (std::size_t m = 0; m < votes.methods.size(); ++m) {
      for (std::size_t w = 0; w < votes.grid.count; ++w) {
        const std::size_t middle = votes.grid.first_sample(w) + votes.grid.length / 2;
        if (!votes.flags[m][w] || middle < episode.begin || middle >= episode.end) continue;
        episode.methods.emplace_back(votes.methods[m]);
        break;
      }
    }
    episode.agreement = static_cast<int>(episode.methods.size());
  }

  /// A window's score: the best interval around its middle. Scanned intervals that overlap a refined one are rough
  /// versions of it and would raise its neighbours.
  void score_windows(const Block& block, const std::vector<ScoredInterval>& intervals,
                     const std::vector<Selected>& chosen) {
    const auto raise = [&](const ScoredInterval& interval) {
      const std::size_t begin = block.begin + interval.begin;
      const std::size_t end = block.begin + interval.end;
      std::size_t w = begin > grid_.length / 2 ? (begin - grid_.length / 2 + grid_.stride - 1) / grid_.stride : 0;
      for (; w < grid_.count && middle_of(w) < end; ++w) {
        result_.windows[w].score = std::max(result_.windows[w].score, interval.score);
      }
    };
    for (const ScoredInterval& interval : intervals) {
      const auto overlaps = [&](const Selected& s) {
        return interval.begin < s.interval.end && s.interval.begin < interval.end;
      };
      if (interval.score > 0 && std::none_of(chosen.begin(), chosen.end(), overlaps)) raise(interval);
    }
    for (const Selected& selected : chosen) raise(selected.interval);
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
    for (std::size_t w = 0; options_.keep_windows && w < grid.count; ++w) {
      WindowScore& window = result_.windows[first + w];
      window.score = ranking.score[w] + (scale_.has_start_and_end ? window.score : 0);
      if (options_.every_channel) window.reasons = ranking.reasons[w];
    }
    if (scale_.has_start_and_end || grid.count < kMinRankedWindows) return;
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

  /// Overlapping blocks see the same event: the better one stays.
  void keep_best() {
    std::vector<Episode>& episodes = result_.episodes;
    std::stable_sort(episodes.begin(), episodes.end(),
                     [](const Episode& a, const Episode& b) { return a.score > b.score; });
    const std::size_t apart = scale_.samples(kApartSeconds);
    std::vector<Episode> kept;
    for (Episode& episode : episodes) {
      const bool known = std::any_of(kept.begin(), kept.end(), [&](const Episode& other) {
        return other.labels == episode.labels && episode.begin < other.end + apart && other.begin < episode.end + apart;
      });
      if (!known) kept.push_back(std::move(episode));
    }
    episodes = std::move(kept);
  }

  void finish_windows() {
    for (const Episode& episode : result_.episodes) {
      if (episode.tier == Tier::none) continue;
      for (std::size_t w = episode.first_window; w <= episode.last_window && w < grid_.count; ++w) {
        WindowScore& window = result_.windows[w];
        if (window.tier != Tier::none) continue;  // episodes come by falling score
        window.tier = episode.tier;
        window.agreement = episode.agreement;
        if (episode.methods.empty() || episode.methods.front() != "GAP")
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
  Detection result_;
};

}  // namespace

Detection detect_by_gap_scan(const Telemetry& telemetry, const DetectOptions& options) {
  return GapDetection(telemetry, options).run();
}

}  // namespace reveal
