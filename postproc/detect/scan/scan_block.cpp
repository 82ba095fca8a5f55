#include "postproc/detect/scan/scan_block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/distinctness.h"
#include "postproc/detect/scan/neighbour_ratio.h"
#include "postproc/detect/scan/reference_means.h"
#include "postproc/detect/scan/repeated_events.h"
#include "postproc/detect/scan/scan_series.h"

namespace reveal {

namespace {

// Three numbers decide the result: how far the interval lies beyond everything outside (the scan's score S), how
// unfamiliar its seconds are (the nearest-neighbour ratio R), and how many blocks were searched. Measured on 16
// labelled jobs of a minute and on jobs of ten minutes made of them: the weakest event has S 4.1 with R 2.2 or S 4.9
// with R 1.1, the strongest undisturbed job S 2.9 with R 0.9; bench/detection/jobs.py prints it again.
constexpr double kStrong = 4.7;  // least S * R
constexpr double kStrongRatio = 1.07;
constexpr double kWeakRatio = 1.0;
constexpr double kMostRatio = 2;      // R counts no further: it cannot replace a distance
constexpr double kLeastScore = 3.3;   // least S, for any R
constexpr double kPerBlock = 0.6;     // on kStrong per e-fold of blocks: the scale of the largest S of undisturbed jobs
constexpr double kMostOfBlock = 0.4;  // share of a block: longer intervals never end
constexpr double kShortFactor = 1.25;   // below five seconds, where bursts live
constexpr double kOpenEndFactor = 1.5;  // a change that stays may be the program's next phase
constexpr double kOpenEndRatio = 1.2;
constexpr double kFurther = 0.6;           // share of the best score
constexpr std::size_t kMostRefused = 50;   // intervals of series that wander
constexpr double kSameShare = 0.5;         // share of two intervals together: both then have the same properties
constexpr double kRepeatFactor = 1.25;     // on all thresholds for events that happened two or three times
constexpr double kRepeatJobSeconds = 180;  // a shorter job has too little besides

constexpr double kStartSeconds = 1.5;  // an interval that begins this early is still the start
constexpr double kBeforeSeconds = 5;
constexpr double kLongStartShare = 0.2;
constexpr double kEndShare = 0.15;      // share of the job: a shorter interval at its end is its tear-down
constexpr double kBlockSeconds = 1500;  // longer jobs are scanned in blocks
constexpr double kOverlapSeconds = 300;
constexpr double kBlockLongestSeconds = 280;  // longest interval there: it fits into the overlap
constexpr std::size_t kEpisodesPerBlock = 10;
constexpr double kTrimStartSeconds = 5;  // imports, first allocation
constexpr double kTrimEndSeconds = 2.5;  // tear-down

/// Intervals of one block that stand out, refined.
struct Selected {
  ScoredInterval interval;
  bool edge = false;      // start or tear-down of the job
  bool open_end = false;  // longer than a closed interval may be, and lasts as long as the job
  std::vector<NeighbourRatio::Span> repeats;
};

class Selection {
 public:
  Selection(ReferenceMeans& reference, const ScanScale& scale, const ScanBlock& block)
      : reference_(reference),
        scale_(scale),
        block_(block),
        apart_(scale.samples(kApartSeconds)),
        edge_(scale.samples(kStartSeconds)),
        before_(scale.samples(kBeforeSeconds)) {}

  std::vector<Selected> run(std::vector<ScoredInterval> candidates) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const ScoredInterval& a, const ScoredInterval& b) { return a.score > b.score; });
    double best = 0;
    for (const ScoredInterval& candidate : candidates) {
      if (candidate.score < kLeastScore || candidate.score < kFurther * best) break;
      if (taken_.size() == kEpisodesPerBlock) break;
      if (near_taken(candidate) || cut_by_border(candidate)) continue;
      if (is_start(candidate)) {
        note_edge(candidate);
        continue;
      }
      if (ended_after_all_ && is_longer_than_closed(candidate)) continue;
      if (is_refused(candidate)) continue;
      ScoredInterval refined = refine(reference_, candidate, scale_);
      if (near_taken(refined)) refined = candidate;
      const bool open_end = is_longer_than_closed(candidate);
      if (open_end && refined.end + edge_ < block_.samples) {
        ended_after_all_ = true;
        continue;
      }
      const bool edge = is_start(refined) || is_end(refined);
      if (!edge && !is_distinct(reference_.input(), refined, {}, scale_)) {
        refused_.push_back(candidate);
        if (refused_.size() == kMostRefused) break;
        continue;
      }
      taken_.push_back(refined);
      if (cut_by_border(refined)) continue;
      if (edge) {
        note_edge(refined);
      } else {
        selected_.push_back({refined, false, open_end, {}});
        best = std::max(best, refined.score);
      }
    }
    return std::move(selected_);
  }

 private:
  [[nodiscard]] bool near_taken(const ScoredInterval& interval) const {
    return std::any_of(taken_.begin(), taken_.end(), [&](const ScoredInterval& other) {
      return interval.begin < other.end + apart_ && other.begin < interval.end + apart_;
    });
  }
  [[nodiscard]] bool is_refused(const ScoredInterval& interval) const {
    return std::any_of(refused_.begin(), refused_.end(), [&](const ScoredInterval& other) {
      const double all = static_cast<double>(std::max(interval.end, other.end) - std::min(interval.begin, other.begin));
      const double common = static_cast<double>(std::min(interval.end, other.end)) -
                            static_cast<double>(std::max(interval.begin, other.begin));
      return common > kSameShare * all;
    });
  }
  /// A neighbouring block contains all of it.
  [[nodiscard]] bool cut_by_border(const ScoredInterval& interval) const {
    return (!block_.first && interval.begin < edge_) || (!block_.last && interval.end + edge_ > block_.samples);
  }
  [[nodiscard]] bool is_start(const ScoredInterval& interval) const {
    if (!block_.first || !scale_.has_start_and_end) return false;
    // Nothing before it to compare with: if it is long, the rest after it may be the exception instead.
    const auto length = static_cast<double>(interval.end - interval.begin);
    const bool long_start = interval.begin < before_ && length > kLongStartShare * static_cast<double>(block_.samples);
    return interval.begin < edge_ || long_start;
  }
  [[nodiscard]] bool is_end(const ScoredInterval& interval) const {
    const auto length = static_cast<double>(interval.end - interval.begin);
    return block_.last && !block_.running && scale_.has_start_and_end && interval.end + edge_ / 3 >= block_.samples &&
           length < kEndShare * static_cast<double>(block_.samples);
  }
  [[nodiscard]] bool is_longer_than_closed(const ScoredInterval& interval) const {
    return static_cast<double>(interval.end - interval.begin) > kMostOfBlock * static_cast<double>(block_.samples);
  }
  /// One is enough.
  void note_edge(const ScoredInterval& interval) {
    const auto is_edge = [](const Selected& s) { return s.edge; };
    if (std::none_of(selected_.begin(), selected_.end(), is_edge)) selected_.push_back({interval, true, false, {}});
  }

  ReferenceMeans& reference_;
  const ScanScale& scale_;
  const ScanBlock& block_;
  std::size_t apart_;
  std::size_t edge_;
  std::size_t before_;
  bool ended_after_all_ = false;  // an interval that seemed to last to the end of the job
  std::vector<ScoredInterval> taken_;
  std::vector<ScoredInterval> refused_;
  std::vector<Selected> selected_;
};

class Scan {
 public:
  Scan(const Telemetry& telemetry, std::size_t offset, const ScanBlock& block, std::size_t searched,
       const ScanScale& scale, std::size_t filled)
      : telemetry_(telemetry),
        offset_(offset),
        block_(block),
        searched_(searched),
        scale_(scale),
        filled_(filled),
        input_(scan_input(telemetry, block.begin - offset, block.samples, scale)),
        correlation_(input_, scale),
        reference_(input_, scale) {
    // The analyser does not see into the constructor of correlation_.
    mark_detecting(input_, correlation_);  // NOLINT(clang-analyzer-optin.cplusplus.UninitializedObject)
  }

  BlockScan run() {
    BlockScan result{.block = block_, .episodes = {}, .intervals = scan_intervals(input_, options()), .chosen = {}};
    for (ScoredInterval& interval : result.intervals) {
      if (static_cast<double>(interval.end - interval.begin) > kMostOfBlock * static_cast<double>(block_.samples))
        interval.score /= kOpenEndFactor;
    }
    std::vector<Selected> chosen = Selection(reference_, scale_, block_).run(result.intervals);
    add_repeats(chosen);
    if (chosen.empty()) return result;

    const NeighbourRatio neighbours(input_, scale_);
    for (const Selected& selected : chosen) {
      result.chosen.push_back(selected.interval);
      result.episodes.push_back(episode_of(selected, neighbours));
    }
    return result;
  }

 private:
  /// Lengths that this resolution is for: short ones were looked at before, long ones will be.
  [[nodiscard]] ScanOptions options() const {
    const bool whole = block_.first && block_.last;
    ScanOptions options = scan_options(scale_, block_.samples);
    const std::size_t longest = whole ? block_.samples : scale_.samples(kBlockLongestSeconds);
    const std::size_t shortest = block_.factor > 1 ? scale_.samples(kBlockLongestSeconds) / kCoarserScan : 0;
    for (ScanLengths& size : options.sizes) {
      std::erase_if(size.lengths, [&](std::size_t length) { return length > longest || length < shortest; });
    }
    std::erase_if(options.sizes, [](const ScanLengths& size) { return size.lengths.empty(); });
    options.open_end = whole;
    return options;
  }

  /// Adds events that happened two or three times: each hides the others from the scan.
  void add_repeats(std::vector<Selected>& chosen) {
    if (block_.samples < scale_.samples(kRepeatJobSeconds)) return;
    const std::size_t edge = scale_.samples(kStartSeconds);
    for (const std::vector<ScoredInterval>& group : find_repeats(reference_, scale_, kRepeatFactor * kStrong)) {
      for (const ScoredInterval& one : group) {
        const auto overlaps = [&](const Selected& s) {
          return one.begin < s.interval.end && s.interval.begin < one.end;
        };
        if (one.score < kRepeatFactor * kLeastScore || one.begin < edge || one.end + edge > block_.samples) continue;
        if (std::any_of(chosen.begin(), chosen.end(), overlaps)) continue;
        std::vector<NeighbourRatio::Span> repeats;
        for (const ScoredInterval& other : group) {
          if (other.begin != one.begin) repeats.push_back({other.begin, other.end});
        }
        chosen.push_back({one, false, false, std::move(repeats)});
      }
    }
  }

  [[nodiscard]] Tier tier_of(const Selected& selected, double ratio, double seconds) const {
    double strength = selected.interval.score * std::min(ratio, kMostRatio);
    if (seconds < kShortSeconds) strength /= kShortFactor;
    if (!selected.repeats.empty()) strength /= kRepeatFactor;
    const double searched = kPerBlock * std::log(static_cast<double>(searched_));
    const double least = selected.open_end ? kOpenEndRatio : kStrongRatio;
    if (seconds >= kShortestStrongSeconds && ratio >= least && strength >= kStrong + searched) return Tier::strong;
    return ratio >= kWeakRatio && strength >= kWeakScore + searched ? Tier::weak : Tier::none;
  }

  [[nodiscard]] Episode episode_of(const Selected& selected, const NeighbourRatio& neighbours) {
    const ScoredInterval& interval = selected.interval;
    Attribution attribution =
        attribute(telemetry_, reference_, correlation_, block_.begin - offset_, interval, filled_);
    Episode episode{.begin = (block_.begin + interval.begin) * block_.factor,
                    .end = (block_.begin + interval.end) * block_.factor,
                    .methods = {Method::interval_scan},
                    .agreement = 1,
                    .score = interval.score,
                    .subsystem = attribution.subsystem,
                    .second_subsystem = attribution.second_subsystem,
                    .reasons = std::move(attribution.reasons)};
    if (selected.edge) {
      episode.labels.push_back(Label::edge);
      return episode;
    }
    const double ratio = neighbours.ratio(interval.begin, interval.end, selected.repeats);
    const double seconds = static_cast<double>((episode.end - episode.begin)) / scale_.samples_per_second;
    if (seconds < kShortSeconds) episode.labels.push_back(Label::brief);
    if (!selected.repeats.empty()) episode.labels.push_back(Label::recurring);
    episode.tier = tier_of(selected, ratio, seconds);
    return episode;
  }

  const Telemetry& telemetry_;
  std::size_t offset_;
  const ScanBlock& block_;
  std::size_t searched_;
  const ScanScale& scale_;
  std::size_t filled_;  // reasons with their levels
  ScanInput input_;
  SeriesCorrelation correlation_;
  ReferenceMeans reference_;
};

}  // namespace

std::vector<ScanBlock> blocks_of(std::size_t begin, std::size_t end, const ScanScale& scale) {
  const std::size_t samples = end - begin;
  const std::size_t longest = scale.samples(kBlockSeconds);
  if (samples <= longest) return {{begin, samples, true, true}};
  const std::size_t overlap = scale.samples(kOverlapSeconds);
  const std::size_t step = std::max<std::size_t>(1, longest - overlap);
  const std::size_t count = std::max<std::size_t>(2, (samples - overlap + step - 1) / step);
  const std::size_t length = (samples + (count - 1) * overlap + count - 1) / count;
  std::vector<ScanBlock> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i + 1 == count ? samples - length : i * (length - overlap);
    blocks.push_back({begin + at, length, i == 0, i + 1 == count});
  }
  return blocks;
}

std::size_t trimmed_start(const ScanScale& scale) {
  return scale.has_start_and_end ? scale.samples(kTrimStartSeconds) : 0;
}

std::size_t trimmed_end(const ScanScale& scale) {
  return scale.has_start_and_end ? scale.samples(kTrimEndSeconds) : 0;
}

BlockScan scan_block(const Telemetry& telemetry, std::size_t offset, const ScanBlock& block, std::size_t searched,
                     const ScanScale& scale, std::size_t filled) {
  return Scan(telemetry, offset, block, searched, scale, filled).run();
}

namespace {

/// Whether two episodes of one time are one event. Labels may differ: only the block that holds an event and its
/// repetition knows that it recurs. An episode without a tier hides none that has one.
bool is_copy(const Episode& episode, const Episode& better) {
  if (better.labels == episode.labels) return true;
  const auto is_interval = [](const Episode& one) {
    return one.methods.front() == Method::interval_scan && !has_label(one, Label::edge);
  };
  return is_interval(better) && is_interval(episode) && (better.tier != Tier::none || episode.tier == Tier::none);
}

}  // namespace

void keep_best(std::vector<Episode>& episodes, const ScanScale& scale) {
  std::stable_sort(episodes.begin(), episodes.end(),
                   [](const Episode& a, const Episode& b) { return a.score > b.score; });
  const std::size_t apart = scale.samples(kApartSeconds);
  std::vector<Episode> kept;
  for (Episode& episode : episodes) {
    const auto known = std::find_if(kept.begin(), kept.end(), [&](const Episode& other) {
      return episode.begin < other.end + apart && other.begin < episode.end + apart && is_copy(episode, other);
    });
    if (known == kept.end()) {
      kept.push_back(std::move(episode));
    } else if (known->labels != episode.labels) {
      known->tier = std::max(known->tier, episode.tier);
    }
  }
  episodes = std::move(kept);
}

}  // namespace reveal
