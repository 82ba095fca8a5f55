#include "postproc/detect/reveal_pipeline.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "postproc/detect/attribution.h"
#include "postproc/detect/claim.h"
#include "postproc/detect/ensemble.h"
#include "postproc/detect/gap_scan.h"
#include "postproc/detect/hard_counters.h"
#include "postproc/detect/novelty.h"
#include "postproc/detect/paper_pipeline.h"
#include "postproc/detect/scan_series.h"
#include "postproc/detect/window_episodes.h"

namespace reveal {

namespace {

// What is said is decided by three numbers: how far the interval lies beyond everything outside (the scan's score S),
// how unfamiliar its seconds are (the novelty ratio R), and how many blocks were searched. Measured on 16 labelled jobs
// of a minute and on jobs of ten minutes made of them: the weakest event has S 4.1 with R 2.2 or S 4.9 with R 1.1, the
// strongest undisturbed job S 2.9 with R 0.9; bench/detection/jobs.py says it again.
constexpr double kFinding = 4.7;  // of S * R
constexpr double kNotice = 3.6;
constexpr double kFindingNovelty = 1.07;
constexpr double kNoticeNovelty = 1.0;
constexpr double kMostNovelty = 2;   // R counts no further: it cannot replace a distance
constexpr double kLeastScore = 3.3;  // of S, whatever R
constexpr double kPerBlock = 0.6;    // on kFinding per e-fold of blocks: the scale of the largest S of undisturbed jobs
constexpr double kMaxShare = 0.4;    // of a block: longer intervals never end
constexpr double kShortFactor = 1.25;   // below five seconds, where bursts live
constexpr double kOpenEndFactor = 1.5;  // a change that stays may be the program's next phase
constexpr double kOpenEndNovelty = 1.2;
constexpr double kFurther = 0.6;         // of the best score
constexpr double kTwinFactor = 1.25;     // on all thresholds for what happened two or three times
constexpr double kTwinJobSeconds = 180;  // a shorter job has too little besides

constexpr double kTrimStartSeconds = 5;  // imports, first allocation
constexpr double kTrimEndSeconds = 2.5;  // tear-down
constexpr double kEdgeSeconds = 1.5;     // an interval that begins this early is still the start
constexpr double kBeforeSeconds = 5;
constexpr double kLongStartShare = 0.2;
constexpr double kEndShare = 0.15;  // of the job: one that ends with it and is shorter is its tear-down
constexpr double kApartSeconds = 2;
constexpr double kBlockSeconds = 1500;  // longer jobs are scanned in blocks
constexpr double kOverlapSeconds = 300;
constexpr double kBlockLongestSeconds = 280;  // of an interval there: it fits into the overlap
constexpr std::size_t kCoarser = 10;          // and for longer ones again, with samples ten times as long
constexpr double kShortSeconds = 5;
constexpr double kShortestFindingSeconds = 3;  // below, a notice at most
constexpr double kShortestJobSeconds = 20;
constexpr std::size_t kEpisodesPerBlock = 10;
constexpr std::size_t kMinWindows = 30;
constexpr double kVotingSeconds = 150;  // before and after an episode, for the window detectors' second opinion

constexpr std::size_t kMostVotingChannels = 5000;  // their pruning compares all with all

/// A piece of the job, of one resolution.
struct Block {
  std::size_t begin = 0;  // sample of the telemetry of that resolution
  std::size_t samples = 0;
  bool first = false;
  bool last = false;
};

/// As few blocks as possible, as long as each other.
std::vector<Block> blocks_of(std::size_t begin, std::size_t end, const ScanScale& scale) {
  const std::size_t samples = end - begin;
  const std::size_t longest = scale.samples(kBlockSeconds);
  if (samples <= longest) return {{begin, samples, true, true}};
  const std::size_t overlap = scale.samples(kOverlapSeconds);
  const std::size_t step = std::max<std::size_t>(1, longest - overlap);
  const std::size_t count = std::max<std::size_t>(2, (samples - overlap + step - 1) / step);
  const std::size_t length = (samples + (count - 1) * overlap + count - 1) / count;
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i + 1 == count ? samples - length : i * (length - overlap);
    blocks.push_back({begin + at, length, i == 0, i + 1 == count});
  }
  return blocks;
}

/// The same telemetry with `kCoarser` samples in one.
Telemetry coarser(const Telemetry& telemetry) {
  Telemetry coarse{.node = telemetry.node,
                   .step_seconds = telemetry.step_seconds * static_cast<double>(kCoarser),
                   .begin_utc_ns = telemetry.begin_utc_ns,
                   .samples = telemetry.samples / kCoarser,
                   .channels = telemetry.channels,
                   .values = {}};
  coarse.values.reserve(coarse.samples * coarse.channels.size());
  for (std::size_t c = 0; c < coarse.channels.size(); ++c) {
    const auto values = telemetry.series(c);
    for (std::size_t s = 0; s < coarse.samples; ++s) {
      double sum = 0;
      double present = 0;
      for (std::size_t t = s * kCoarser; t < (s + 1) * kCoarser; ++t) {
        if (std::isnan(values[t])) continue;
        sum += values[t];
        present += 1;
      }
      coarse.values.push_back(sum / present);  // a mean also of counters, so that a gap does not look like a pause
    }
  }
  return coarse;
}

/// Intervals of one block that stand out, refined.
struct Selected {
  ScoredInterval interval;
  bool edge = false;      // of the job: its start or its tear-down
  bool open_end = false;  // longer than a closed interval may be, and lasts as long as the job
  std::vector<Novelty::Span> twins;
};

class Selection {
 public:
  Selection(const ScanInput& input, const ScanScale& scale, const Block& block, bool job_ends)
      : input_(input),
        scale_(scale),
        block_(block),
        job_ends_(job_ends),
        apart_(scale.samples(kApartSeconds)),
        edge_(scale.samples(kEdgeSeconds)),
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
      ScoredInterval refined = refine(input_, candidate, scale_);
      if (near_taken(refined)) refined = candidate;
      const bool open_end = is_longer_than_closed(candidate);
      if (open_end && refined.end + edge_ < block_.samples) {
        ended_after_all_ = true;
        continue;
      }
      taken_.push_back(refined);
      if (cut_by_border(refined)) continue;
      if (is_start(refined) || is_end(refined)) {
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
  /// A neighbouring block sees it whole.
  [[nodiscard]] bool cut_by_border(const ScoredInterval& interval) const {
    return (!block_.first && interval.begin < edge_) || (!block_.last && interval.end + edge_ > block_.samples);
  }
  [[nodiscard]] bool is_start(const ScoredInterval& interval) const {
    if (!block_.first || !scale_.has_start_and_end) return false;
    // Nothing before it to compare with: if it is long, what differs may as well be all that follows.
    const auto length = static_cast<double>(interval.end - interval.begin);
    const bool long_start = interval.begin < before_ && length > kLongStartShare * static_cast<double>(block_.samples);
    return interval.begin < edge_ || long_start;
  }
  [[nodiscard]] bool is_end(const ScoredInterval& interval) const {
    const auto length = static_cast<double>(interval.end - interval.begin);
    return block_.last && job_ends_ && scale_.has_start_and_end && interval.end + edge_ / 3 >= block_.samples &&
           length < kEndShare * static_cast<double>(block_.samples);
  }
  [[nodiscard]] bool is_longer_than_closed(const ScoredInterval& interval) const {
    return static_cast<double>(interval.end - interval.begin) > kMaxShare * static_cast<double>(block_.samples);
  }
  /// One is enough.
  void note_edge(const ScoredInterval& interval) {
    const auto is_edge = [](const Selected& s) { return s.edge; };
    if (std::none_of(selected_.begin(), selected_.end(), is_edge)) selected_.push_back({interval, true, false, {}});
  }

  const ScanInput& input_;
  const ScanScale& scale_;
  const Block& block_;
  bool job_ends_;
  std::size_t apart_;
  std::size_t edge_;
  std::size_t before_;
  bool ended_after_all_ = false;  // what seemed to last to the end of the job
  std::vector<ScoredInterval> taken_;
  std::vector<Selected> selected_;
};

class GapDetection {
 public:
  GapDetection(const Telemetry& telemetry, const DetectOptions& options)
      : telemetry_(telemetry), options_(options), scale_(scan_scale(telemetry.step_seconds)) {
    grid_ = window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  }

  Detection run() {
    const auto seconds = static_cast<double>(telemetry_.samples) / scale_.samples_per_second;
    if (seconds < kShortestJobSeconds) {
      result_.insufficient =
          fmt::format("{:.1f} s recorded, at least {:.0f} s are needed",
                      static_cast<double>(telemetry_.samples) * telemetry_.step_seconds,
                      static_cast<double>(scale_.samples(kShortestJobSeconds)) * telemetry_.step_seconds);
      return std::move(result_);
    }
    if (options_.keep_windows) start_windows();
    scan_job();
    add_counter_bursts();
    keep_best();
    if (grid_.count < kMinWindows) {
      result_.insufficient = fmt::format("{} windows, at least {} are needed", grid_.count, kMinWindows);
      for (Episode& episode : result_.episodes) episode.tier = Tier::none;
    }
    if (options_.every_channel || !scale_.has_start_and_end) rank(trim_start(), telemetry_.samples - trim_end());
    if (options_.keep_windows) finish_windows();
    return std::move(result_);
  }

 private:
  void start_windows() {
    for (std::size_t w = 0; w < grid_.count; ++w) {
      result_.windows.push_back({.begin = grid_.first_sample(w), .end = grid_.end_sample(w)});
    }
  }

  [[nodiscard]] std::size_t trim_start() const {
    return scale_.has_start_and_end && options_.starts ? scale_.samples(kTrimStartSeconds) : 0;
  }
  [[nodiscard]] std::size_t trim_end() const {
    return scale_.has_start_and_end && options_.ends ? scale_.samples(kTrimEndSeconds) : 0;
  }

  void scan_job() {
    std::vector<Block> blocks = blocks_of(trim_start(), telemetry_.samples - trim_end(), scale_);
    if (!options_.starts) blocks.front().first = false;
    searched_ = blocks.size() + options_.searched_before;
    for (const Block& block : blocks) scan(telemetry_, 1, block, blocks.size());

    // Events too long for a block, on coarser and coarser samples until one block holds the job.
    Telemetry coarse;
    const Telemetry* finer = &telemetry_;
    for (std::size_t factor = kCoarser; blocks.size() > 1; factor *= kCoarser) {
      coarse = coarser(*finer);
      finer = &coarse;
      blocks = blocks_of(trim_start() / factor, coarse.samples - (trim_end() + factor - 1) / factor, scale_);
      searched_ += blocks.size();
      for (const Block& block : blocks) scan(coarse, factor, block, blocks.size());
    }
  }

  /// Lengths that this resolution is for: short ones were looked at before, long ones will be.
  [[nodiscard]] ScanOptions options_of(const Block& block, std::size_t factor, std::size_t blocks) const {
    ScanOptions options = scan_options(scale_, block.samples);
    const std::size_t longest = blocks > 1 ? scale_.samples(kBlockLongestSeconds) : block.samples;
    const std::size_t shortest = factor > 1 ? scale_.samples(kBlockLongestSeconds) / kCoarser : 0;
    for (ScanLengths& size : options.sizes) {
      std::erase_if(size.lengths, [&](std::size_t length) { return length > longest || length < shortest; });
    }
    std::erase_if(options.sizes, [](const ScanLengths& size) { return size.lengths.empty(); });
    options.open_end = blocks == 1;
    return options;
  }

  /// `factor`: samples of the job in one of this telemetry.
  void scan(const Telemetry& telemetry, std::size_t factor, const Block& block, std::size_t blocks) {
    ScanInput input = scan_input(telemetry, block.begin, block.samples, scale_);
    const SeriesCorrelation correlation(input, scale_);
    mark_detecting(input, correlation);
    std::vector<ScoredInterval> intervals = scan_intervals(input, options_of(block, factor, blocks));
    for (ScoredInterval& interval : intervals) {
      if (static_cast<double>(interval.end - interval.begin) > kMaxShare * static_cast<double>(block.samples))
        interval.score /= kOpenEndFactor;
    }
    std::vector<Selected> chosen = Selection(input, scale_, block, options_.ends).run(intervals);
    add_twins(input, block, chosen);
    if (factor == 1 && options_.keep_windows) score_windows(block, intervals, chosen);
    if (chosen.empty()) return;

    const Novelty novelty(input, scale_);
    for (const Selected& selected : chosen) {
      Episode episode = episode_of(telemetry, factor, block, input, correlation, selected);
      if (!selected.edge) {
        const double ratio = novelty.ratio(selected.interval.begin, selected.interval.end, selected.twins);
        const double seconds = static_cast<double>((episode.end - episode.begin)) / scale_.samples_per_second;
        if (seconds < kShortSeconds) episode.labels.emplace_back("SHORT");
        if (!selected.twins.empty()) episode.labels.emplace_back("RECURRING");
        episode.tier = tier_of(selected, ratio, seconds);
        add_votes(episode);
      }
      result_.episodes.push_back(std::move(episode));
    }
  }

  /// What happened two or three times: each hides the others from the scan.
  void add_twins(const ScanInput& input, const Block& block, std::vector<Selected>& chosen) const {
    if (block.samples < scale_.samples(kTwinJobSeconds)) return;
    const std::size_t edge = scale_.samples(kEdgeSeconds);
    for (const std::vector<ScoredInterval>& group : find_twins(input, scale_, kTwinFactor * kFinding)) {
      for (const ScoredInterval& one : group) {
        const auto overlaps = [&](const Selected& s) {
          return one.begin < s.interval.end && s.interval.begin < one.end;
        };
        if (one.score < kTwinFactor * kLeastScore || one.begin < edge || one.end + edge > block.samples) continue;
        if (std::any_of(chosen.begin(), chosen.end(), overlaps)) continue;
        std::vector<Novelty::Span> twins;
        for (const ScoredInterval& other : group) {
          if (other.begin != one.begin) twins.push_back({other.begin, other.end});
        }
        chosen.push_back({one, false, false, std::move(twins)});
      }
    }
  }

  [[nodiscard]] Tier tier_of(const Selected& selected, double novelty, double seconds) const {
    double strength = selected.interval.score * std::min(novelty, kMostNovelty);
    if (seconds < kShortSeconds) strength /= kShortFactor;
    if (!selected.twins.empty()) strength /= kTwinFactor;
    const double searched = kPerBlock * std::log(static_cast<double>(searched_));
    const double least = selected.open_end ? kOpenEndNovelty : kFindingNovelty;
    if (seconds >= kShortestFindingSeconds && novelty >= least && strength >= kFinding + searched) return Tier::finding;
    return novelty >= kNoticeNovelty && strength >= kNotice + searched ? Tier::notice : Tier::none;
  }

  Episode episode_of(const Telemetry& telemetry, std::size_t factor, const Block& block, const ScanInput& input,
                     const SeriesCorrelation& correlation, const Selected& selected) const {
    const ScoredInterval& interval = selected.interval;
    Attribution attribution = attribute(telemetry, input, correlation, block.begin, interval, scale_);
    Episode episode{.begin = (block.begin + interval.begin) * factor,
                    .end = (block.begin + interval.end) * factor,
                    .methods = {"GAP"},
                    .agreement = 1,
                    .score = interval.score,
                    .subsystem = attribution.subsystem,
                    .second_subsystem = attribution.second_subsystem,
                    .reasons = std::move(attribution.reasons)};
    if (factor > 1) fill_levels(telemetry_, episode.begin, episode.end, episode.reasons);
    if (selected.edge) episode.labels.emplace_back("EDGE");
    describe(episode);
    return episode;
  }

  void describe(Episode& episode) const {
    name_windows(episode);
    episode.claim = claim_of(episode);
    if (!options_.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
  }

  /// Errors, drops, kills: by value, since one counter does not move a scan of hundreds.
  void add_counter_bursts() {
    const std::size_t apart = scale_.samples(kApartSeconds);
    for (const CounterBurst& burst : counter_bursts(telemetry_, scale_)) {
      const auto overlaps = [&](const Episode& episode) {
        return burst.begin < episode.end + apart && episode.begin < burst.end + apart && episode.tier != Tier::none;
      };
      const auto known = std::find_if(result_.episodes.begin(), result_.episodes.end(), overlaps);
      if (known != result_.episodes.end()) {
        if (std::find(known->methods.begin(), known->methods.end(), "COUNT") == known->methods.end()) {
          known->methods.emplace_back("COUNT");
          ++known->agreement;
        }
        if (!burst.recurring && known->methods.front() == "GAP") known->tier = Tier::finding;  // two witnesses
        continue;
      }
      result_.episodes.push_back(episode_of(burst));
    }
  }

  [[nodiscard]] Episode episode_of(const CounterBurst& burst) const {
    const Channel& channel = telemetry_.channels[burst.channel];
    const double seconds = static_cast<double>(burst.end - burst.begin) / scale_.samples_per_second;
    Episode episode{.begin = burst.begin,
                    .end = burst.end,
                    .methods = {"COUNT"},
                    .agreement = 1,
                    .score = kNotice + std::log10(std::max(1.0, burst.count / burst.least)),
                    .tier = Tier::finding,
                    .subsystem = channel.subsystem,
                    .second_subsystem = channel.subsystem,
                    .reasons = {}};
    const std::size_t edge = trim_start();
    if (burst.recurring) episode.labels.emplace_back("RECURRING");
    if (seconds < kShortSeconds) episode.labels.emplace_back("SHORT");
    if (burst.begin < edge) episode.labels.emplace_back("EDGE");
    if (burst.recurring || burst.begin < edge) {
      episode.tier = Tier::none;
    } else if (seconds < kShortestFindingSeconds && burst.least > 1) {
      episode.tier = Tier::notice;
    }
    Reason reason{.channel = burst.channel, .feature = "mean", .z = burst.count, .observed = 0, .expected = 0};
    reason.share = 1;
    episode.reasons = {reason};
    fill_levels(telemetry_, burst.begin, burst.end, episode.reasons);
    describe(episode);
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

  /// The window detectors' second opinion, on the minutes around the episode.
  void add_votes(Episode& episode) const {
    if (telemetry_.channels.size() > kMostVotingChannels) return;
    const std::size_t around = scale_.samples(kVotingSeconds);
    const std::size_t begin = episode.begin - std::min(episode.begin, around);
    const std::size_t end = std::min({telemetry_.samples, episode.end + around, begin + 4 * around});
    const WindowGrid grid =
        window_grid(options_.window_seconds, options_.stride_seconds, telemetry_.step_seconds, begin, end - begin);
    if (grid.count < kMinWindows) return;
    const WindowVotes votes = window_votes(telemetry_, options_, begin, end - begin);
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
        if (episode.methods.empty() || (episode.methods.front() != "GAP" && episode.methods.front() != "COUNT"))
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
