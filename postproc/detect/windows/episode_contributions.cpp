#include "postproc/detect/windows/episode_contributions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "postproc/detect/windows/contributions.h"
#include "postproc/detect/windows/ensemble.h"
#include "postproc/features/window_grid.h"

namespace reveal {
namespace {

constexpr std::size_t kMostWindows = 5;   // of a long episode, evenly spread
constexpr std::size_t kMostChannels = 5;  // named per detector
constexpr double kLeastShare = 0.005;     // of those named

std::vector<std::size_t> windows_in(const WindowGrid& grid, std::size_t offset, const Episode& episode) {
  std::vector<std::size_t> inside;
  for (std::size_t w = 0; w < grid.count; ++w) {
    const std::size_t middle = offset + grid.first_sample(w) + grid.length / 2;
    if (middle >= episode.begin && middle < episode.end) inside.push_back(w);
  }
  if (inside.size() <= kMostWindows) return inside;
  std::vector<std::size_t> spread;
  for (std::size_t i = 0; i < kMostWindows; ++i)
    spread.push_back(inside[(2 * i + 1) * inside.size() / (2 * kMostWindows)]);
  return spread;
}

/// The largest, as shares of all; with their sign, since a channel may also speak for an ordinary window.
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

}  // namespace

void add_contributions(const Telemetry& telemetry, const DetectOptions& options, std::size_t around, Episode& episode,
                       std::size_t offset) {
  const std::size_t begin = std::max(offset, episode.begin - std::min(episode.begin, around));
  const std::size_t end = std::min({offset + telemetry.samples, episode.end + around, begin + 4 * around});
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, begin - offset, end - begin);
  const std::vector<std::size_t> at = windows_in(grid, offset, episode);
  if (grid.count < kLeastWindows || at.empty()) return;
  const RobustWindows windows = robust_windows_with_features(telemetry, grid);
  const std::vector<Contributions> parts = contributions(telemetry, grid, windows, at, options.seed);

  struct Part {
    Method method;
    std::vector<double> Contributions::*values;
  };
  constexpr Part kParts[] = {{Method::robust_mahalanobis, &Contributions::mahalanobis},
                             {Method::neighbours, &Contributions::neighbours},
                             {Method::robust_forest, &Contributions::forest}};
  for (const Part& part : kParts) {
    std::vector<double> sum(windows.channels.size());
    for (const Contributions& one : parts) {
      const std::vector<double>& values = one.*part.values;
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += values[c];
    }
    auto shares = largest(sum, windows.channels);
    if (!shares.empty()) episode.contributions.push_back({part.method, std::move(shares)});
  }
}

}  // namespace reveal
