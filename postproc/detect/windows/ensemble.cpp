#include "postproc/detect/windows/ensemble.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/windows/daily_baseline.h"
#include "postproc/detect/windows/robust_windows.h"
#include "postproc/features/features.h"
#include "postproc/numerics/percentile.h"

namespace reveal {

namespace {

constexpr std::size_t kMaxWindows = 2400;  // the inner products of all pairs: 46 MB
constexpr double kTailPercentile = 98;     // brought to the same height, so that no detector's units outvote others
constexpr double kSmallestTail = 1e-9;
constexpr double kSecondsPerDay = 86400;

struct Member {
  double weight = 0;
  std::optional<Method> method;  // none: compared with the time of day, has no vote of its own
  std::vector<double> score;
};

/// The height of the upper tail; where fewer windows differ, the largest score. 0: all windows have the same.
double tail_of(const std::vector<double>& score) {
  const double tail = percentile(score, kTailPercentile);
  if (tail > kSmallestTail) return tail;
  const double largest = *std::max_element(score.begin(), score.end());
  return largest > kSmallestTail ? largest : 0;
}

class Ranking {
 public:
  Ranking(const Telemetry& telemetry, std::uint64_t seed, Explain explain, std::span<const WindowDetector> detectors,
          WindowRanking& result)
      : telemetry_(telemetry), seed_(seed), explain_(explain), detectors_(detectors), result_(result) {}

  void rank(const WindowGrid& grid) {
    const double per_day = kSecondsPerDay / (static_cast<double>(grid.stride) * telemetry_.step_seconds);
    std::vector<Baseline> baselines{Baseline::whole};
    if (DailyBaseline::applies(grid.count, per_day)) baselines.push_back(Baseline::time_of_day);
    const std::vector<RobustWindows> views = robust_windows(telemetry_, grid, baselines, per_day);
    const double explained = views.size() > 1 ? std::max(0.0, views[1].explained_by_time_of_day) : 0;

    const bool many = views[0].channels.size() > kManyChannels;
    std::vector<Member> members;
    for (const WindowDetector& detector : detectors_) {
      const double weight = many ? detector.weight_many : detector.weight;
      members.push_back({weight, detector.method, detector.score(views[0], seed_)});
      if (detector.by_time_of_day && explained > 0) {
        members.push_back({weight * explained, std::nullopt, detector.score(views[1], seed_)});
      }
    }
    fuse(members, grid.count);
    if (explain_ == Explain::every_channel) give_reasons(views, explained);
  }

 private:
  /// The mean of the members, each brought to the same upper tail; in the units of their own scores again.
  void fuse(const std::vector<Member>& members, std::size_t windows) {
    std::vector<double> scale;
    double total = 0;
    double per_tail = 0;
    for (const Member& member : members) {
      const double tail = tail_of(member.score);
      scale.push_back(tail > 0 ? 1 / tail : 0);
      total += member.weight * scale.back();
      per_tail += scale.back() > 0 ? member.weight : 0;
    }
    const double unit = total > 0 ? per_tail / total : 0;  // a common height of the tails
    std::vector<double> score(windows);
    std::size_t voter = 0;
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::size_t w = 0; w < windows && total > 0; ++w) {
        score[w] += members[m].weight * scale[m] / total * members[m].score[w];
      }
      if (!members[m].method) continue;
      if (result_.methods.size() == voter) {
        result_.methods.push_back(*members[m].method);
        result_.members.emplace_back(result_.score.size());
      }
      for (std::size_t w = 0; w < windows; ++w) {
        result_.members[voter].push_back(members[m].score[w] * scale[m] * unit);
      }
      ++voter;
    }
    result_.score.insert(result_.score.end(), score.begin(), score.end());
  }

  /// Own baseline per channel; the more the time of day explains, the more the baseline is that of the time of day.
  void give_reasons(const std::vector<RobustWindows>& views, double explained) {
    const RobustWindows& whole = views[0];
    for (std::size_t w = 0; w < whole.windows; ++w) {
      std::vector<Reason> reasons(telemetry_.channels.size());
      for (std::size_t c = 0; c < reasons.size(); ++c) reasons[c] = {.channel = c, .feature = "mean"};
      const auto row = static_cast<Eigen::Index>(w);
      for (std::size_t i = 0; i < whole.channels.size(); ++i) {
        const auto column = static_cast<Eigen::Index>(i);
        Reason& reason = reasons[whole.channels[i]];
        reason.z = whole.z(row, column);
        reason.feature = features()[whole.feature(row, column)].name;
        reason.share = (1 - explained) * whole.explaining(row, column);
      }
      for (std::size_t i = 0; explained > 0 && i < views[1].channels.size(); ++i) {
        reasons[views[1].channels[i]].share += explained * views[1].explaining(row, static_cast<Eigen::Index>(i));
      }
      sort_by_share(reasons);
      result_.reasons.push_back(std::move(reasons));
    }
  }

  const Telemetry& telemetry_;
  std::uint64_t seed_;
  Explain explain_;
  std::span<const WindowDetector> detectors_;
  WindowRanking& result_;
};

}  // namespace

WindowRanking rank_windows(const Telemetry& telemetry, const WindowGrid& grid, std::uint64_t seed, Explain explain,
                           std::span<const WindowDetector> detectors) {
  WindowRanking result;
  if (grid.count < kLeastWindows) {
    result.score.resize(grid.count);
    if (explain == Explain::every_channel) result.reasons.resize(grid.count);
    return result;
  }
  Ranking ranking(telemetry, seed, explain, detectors, result);
  const std::size_t parts = (grid.count + kMaxWindows - 1) / kMaxWindows;
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t from = grid.count * p / parts;
    WindowGrid part = grid;
    part.begin = grid.first_sample(from);
    part.count = grid.count * (p + 1) / parts - from;
    ranking.rank(part);
  }
  return result;
}

std::vector<double> raised_by_neighbours(const std::vector<double>& score, const WindowGrid& grid) {
  const double common = 1 - static_cast<double>(std::min(grid.length, grid.stride)) / static_cast<double>(grid.length);
  std::vector<double> raised = score;
  for (std::size_t w = 0; w < score.size(); ++w) {
    const double before = w > 0 ? score[w - 1] : score[w];
    const double after = w + 1 < score.size() ? score[w + 1] : score[w];
    raised[w] += common / 2 * std::max(0.0, std::max(before, after) - score[w]);
  }
  return raised;
}

}  // namespace reveal
