#include "postproc/detect/windows/window_episodes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/scan/claim.h"

namespace reveal {

namespace {

struct RunRule {
  Tier tier;
  double floor;      // floor for the highest window, in the ranking's units
  double per_day;    // as many as a person can read
  double unanimous;  // every detector reaches this share of the threshold somewhere in the run
};

// Measured on servers and applications, see bench/detection/README.md.
constexpr RunRule kStrongRun{Tier::strong, 3, 4.0 / 7, 0.6};
constexpr RunRule kWeakRun{Tier::weak, 2, 8.0 / 7, 0};
constexpr std::size_t kMaxThresholds = 2000;
constexpr std::size_t kReasonsPerSubsystem = 10;
constexpr double kDaySeconds = 86400;
constexpr double kHysteresis = 0.35;  // a run goes on while windows stay above this share of the threshold

double peak(const std::vector<double>& score, std::size_t first, std::size_t last) {
  return *std::max_element(score.begin() + static_cast<std::ptrdiff_t>(first),
                           score.begin() + static_cast<std::ptrdiff_t>(last) + 1);
}

std::vector<WindowRun> runs_above(const WindowRanking& ranking, const RunRule& rule, double threshold) {
  std::vector<WindowRun> runs;
  for (std::size_t w = 0; w < ranking.score.size(); ++w) {
    if (ranking.score[w] < kHysteresis * threshold) continue;
    std::size_t last = w;
    while (last + 1 < ranking.score.size() && ranking.score[last + 1] >= kHysteresis * threshold) ++last;
    WindowRun run{.first = w, .last = last, .score = peak(ranking.score, w, last), .tier = rule.tier};
    w = last;
    if (run.score < threshold) continue;
    bool all = true;
    for (std::size_t m = 0; m < ranking.members.size(); ++m) {
      const double highest = peak(ranking.members[m], run.first, run.last);
      if (highest >= threshold) run.methods.push_back(ranking.methods[m]);
      all = all && highest >= rule.unanimous * threshold;
    }
    if (all || rule.unanimous <= 0) runs.push_back(std::move(run));
  }
  return runs;
}

/// At the lowest threshold that keeps the number of runs within the budget.
std::vector<WindowRun> runs_within_budget(const WindowRanking& ranking, const RunRule& rule, double days) {
  const auto budget = std::max<std::size_t>(1, static_cast<std::size_t>(rule.per_day * days));
  std::vector<double> thresholds{rule.floor};
  for (const double score : ranking.score) {
    if (score > rule.floor) thresholds.push_back(score);
  }
  std::sort(thresholds.begin(), thresholds.end());
  const std::size_t step = thresholds.size() / kMaxThresholds + 1;
  for (std::size_t t = 0; t < thresholds.size(); t += step) {
    const double threshold = thresholds[t];
    std::vector<WindowRun> runs = runs_above(ranking, rule, threshold);
    if (runs.size() <= budget) return runs;
  }
  return {};
}

/// The mean of the windows' shares; feature and z of the window in which the channel is strangest.
std::vector<Reason> reasons_of(const WindowRanking& ranking, const WindowRun& run) {
  std::vector<Reason> sum = ranking.reasons[run.first];
  std::sort(sum.begin(), sum.end(), [](const Reason& a, const Reason& b) { return a.channel < b.channel; });
  for (std::size_t w = run.first + 1; w <= run.last; ++w) {
    for (const Reason& reason : ranking.reasons[w]) {
      Reason& mine = sum[reason.channel];
      mine.share += reason.share;
      if (std::abs(reason.z) <= std::abs(mine.z)) continue;
      mine.z = reason.z;
      mine.feature = reason.feature;
    }
  }
  sort_by_share(sum);
  return sum;
}

/// Names the subsystem with the largest share of its ten first channels together, and a close second one.
void name_subsystems(const Telemetry& telemetry, Episode& episode) {
  std::array<double, kSubsystemCount> share{};
  std::array<std::size_t, kSubsystemCount> seen{};
  for (const Reason& reason : episode.reasons) {
    const auto subsystem = static_cast<std::size_t>(telemetry.channels[reason.channel].subsystem);
    if (seen[subsystem]++ < kReasonsPerSubsystem) share[subsystem] += reason.share;
  }
  std::tie(episode.subsystem, episode.second_subsystem) = leading_subsystems(share);
}

}  // namespace

std::vector<WindowRun> window_runs(const WindowRanking& ranking, double days) {
  std::vector<WindowRun> runs = runs_within_budget(ranking, kStrongRun, days);
  for (WindowRun& weak : runs_within_budget(ranking, kWeakRun, days)) {
    const bool known = std::any_of(runs.begin(), runs.end(), [&](const WindowRun& other) {
      return weak.first <= other.last && other.first <= weak.last;
    });
    if (!known) runs.push_back(std::move(weak));
  }
  std::stable_sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return runs;
}

std::vector<Episode> window_episodes(const Telemetry& telemetry, const WindowGrid& grid, const WindowRanking& ranking) {
  const double days = static_cast<double>(grid.count * grid.stride) * telemetry.step_seconds / kDaySeconds;
  std::vector<Episode> episodes;
  for (const WindowRun& run : window_runs(ranking, days)) {
    // It begins and ends where it is half as strange as at its height; the score of a window belongs to its middle, its
    // neighbours share the rest.
    const auto strange = [&](std::size_t w) { return 2 * ranking.score[w] >= run.score; };
    std::size_t first = run.first;
    std::size_t last = run.last;
    while (!strange(first)) ++first;
    while (!strange(last)) --last;
    const std::size_t aside = (grid.length - std::min(grid.length, grid.stride)) / 2;
    Episode episode{.begin = grid.first_sample(first) + aside,
                    .end = grid.end_sample(last) - aside,
                    .first_window = run.first,
                    .last_window = run.last,
                    .methods = run.methods,
                    .agreement = static_cast<int>(run.methods.size()),
                    .score = run.score,
                    .tier = run.tier,
                    .reasons = reasons_of(ranking, run)};
    fill_levels(telemetry, episode.begin, episode.end, episode.reasons);
    name_subsystems(telemetry, episode);
    for (const Reason& reason : episode.reasons) {
      const Channel& channel = telemetry.channels[reason.channel];
      if (channel.subsystem != episode.subsystem) continue;
      episode.claim =
          plain_claim(channel, reason, static_cast<double>(episode.end - episode.begin) * telemetry.step_seconds);
      break;
    }
    episodes.push_back(std::move(episode));
  }
  return episodes;
}

void name_windows(const WindowGrid& grid, Episode& episode) {
  if (grid.count == 0) return;
  const auto window_at = [&](std::size_t sample) {
    return std::min(grid.count - 1, (sample - std::min(sample, grid.length / 2)) / grid.stride);
  };
  episode.first_window = window_at(episode.begin + grid.stride - 1);
  episode.last_window = std::max(episode.first_window, window_at(episode.end));
}

}  // namespace reveal
