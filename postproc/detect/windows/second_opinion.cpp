#include "postproc/detect/windows/second_opinion.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "postproc/detect/windows/contributions.h"
#include "postproc/detect/windows/robust_windows.h"
#include "postproc/detect/windows/window_detector.h"
#include "postproc/features/window_grid.h"
#include "postproc/numerics/percentile.h"

namespace reveal {
namespace {

constexpr double kAroundSeconds = 150;           // before and after an episode
constexpr std::size_t kMostChannelsSeen = 5000;  // .3 s of work per 1,000 of them
constexpr double kStrangestPercentile = 99;      // as in the paper
constexpr std::size_t kMostWindows = 5;          // windows of a long episode that are explained, evenly spread
constexpr std::size_t kMostChannels = 5;         // named per detector
constexpr double kLeastShare = 0.005;            // share of those named

std::vector<std::size_t> windows_in(const WindowGrid& grid, std::size_t offset, const Episode& episode) {
  std::vector<std::size_t> inside;
  for (std::size_t w = 0; w < grid.count; ++w) {
    const std::size_t middle = offset + grid.first_sample(w) + grid.length / 2;
    if (middle >= episode.begin && middle < episode.end) inside.push_back(w);
  }
  return inside;
}

std::vector<std::size_t> spread_over(const std::vector<std::size_t>& inside) {
  if (inside.size() <= kMostWindows) return inside;
  std::vector<std::size_t> spread;
  for (std::size_t i = 0; i < kMostWindows; ++i)
    spread.push_back(inside[(2 * i + 1) * inside.size() / (2 * kMostWindows)]);
  return spread;
}

/// Returns the largest values as shares of all, with their sign: a channel may also lower the score.
std::vector<ChannelShare> largest(const std::vector<double>& values, const std::vector<std::size_t>& channels) {
  const double all = std::accumulate(values.begin(), values.end(), 0.0,
                                     [](double sum, double value) { return sum + std::abs(value); });
  if (!(all > 0)) return {};
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t most = std::min(kMostChannels, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const double x = std::abs(values[a]);
                      const double y = std::abs(values[b]);
                      return x != y ? x > y : a < b;
                    });
  std::vector<ChannelShare> shares;
  for (std::size_t i = 0; i < most; ++i) {
    const double share = values[order[i]] / all;
    if (std::abs(share) >= kLeastShare) shares.push_back({channels[order[i]], share});
  }
  return shares;
}

void add_methods(const RobustWindows& windows, const std::vector<std::size_t>& inside, std::uint64_t seed,
                 Episode& episode) {
  std::vector<Method> seeing;
  for (const WindowDetector& detector : window_detectors()) {
    const std::vector<double> score = detector.score(windows, seed);
    const double threshold = percentile(score, kStrangestPercentile);
    const auto is_strange = [&](std::size_t window) { return score[window] > threshold; };
    if (std::any_of(inside.begin(), inside.end(), is_strange)) seeing.push_back(detector.method);
  }
  // After the one that found it, before a counter that witnesses it.
  episode.methods.insert(episode.methods.begin() + 1, seeing.begin(), seeing.end());
  episode.agreement = static_cast<int>(episode.methods.size());
}

void add_contributions(const std::vector<Contributions>& all, const std::vector<std::size_t>& channels,
                       Episode& episode) {
  struct Part {
    Method method;
    std::vector<double> Contributions::*values;
  };
  constexpr Part kParts[] = {{Method::robust_mahalanobis, &Contributions::mahalanobis},
                             {Method::neighbours, &Contributions::neighbours},
                             {Method::robust_forest, &Contributions::forest}};
  for (const Part& part : kParts) {
    if (std::find(episode.methods.begin(), episode.methods.end(), part.method) == episode.methods.end()) continue;
    std::vector<double> sum(channels.size());
    for (const Contributions& one : all) {
      const std::vector<double>& values = one.*part.values;
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += values[c];
    }
    auto shares = largest(sum, channels);
    if (!shares.empty()) episode.contributions.push_back({part.method, std::move(shares)});
  }
}

}  // namespace

Surroundings surroundings(const Episode& episode, std::size_t samples, const ScanScale& scale) {
  const std::size_t around = scale.samples(kAroundSeconds);
  const std::size_t begin = episode.begin - std::min(episode.begin, around);
  return {begin, std::min({samples, episode.end + around, begin + 4 * around})};
}

bool deserves_second_opinion(const Episode& episode) {
  return episode.tier != Tier::none && episode.methods.front() == Method::interval_scan;
}

void add_second_opinion(const Telemetry& telemetry, std::size_t offset, const Surroundings& around,
                        const DetectOptions& options, SecondOpinion wanted, Episode& episode) {
  if (telemetry.channels.size() > kMostChannelsSeen) return;
  const WindowGrid grid = window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds,
                                      around.begin - offset, around.end - around.begin);
  const std::vector<std::size_t> inside = windows_in(grid, offset, episode);
  if (grid.count < kLeastWindows || inside.empty()) return;
  constexpr Baseline kWhole[] = {Baseline::whole};
  const bool explain = wanted == SecondOpinion::methods_and_channels;
  const RobustWindows windows = explain ? robust_windows_with_features(telemetry, grid)
                                        : std::move(robust_windows(telemetry, grid, kWhole, 0).front());
  add_methods(windows, inside, options.seed, episode);
  if (!explain) return;
  add_contributions(contributions(telemetry, grid, windows, spread_over(inside), options.seed), windows.channels,
                    episode);
}

}  // namespace reveal
