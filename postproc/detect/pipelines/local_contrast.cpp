#include "postproc/detect/pipelines/local_contrast.h"

#include <algorithm>
#include <utility>

#include "postproc/detect/scan/attribution.h"
#include "postproc/detect/windows/ensemble.h"
#include "postproc/detect/windows/robust_windows.h"
#include "postproc/detect/windows/window_detector.h"
#include "postproc/detect/windows/window_episodes.h"
#include "postproc/features/features.h"

namespace reveal {
namespace {

RobustWindows nearby(const Telemetry& telemetry, const WindowGrid& grid) {
  constexpr Baseline kNearby[] = {Baseline::nearby};
  return std::move(robust_windows(telemetry, grid, kNearby, 0).front());
}

std::vector<double> contrast_of(const RobustWindows& windows) {
  for (const WindowDetector& detector : window_detectors()) {
    if (detector.label == "Z") return detector.score(windows, 0);
  }
  return std::vector<double>(windows.windows);
}

std::vector<Reason> reasons_of(const Telemetry& telemetry, const RobustWindows& windows, std::size_t window) {
  std::vector<Reason> reasons(telemetry.channels.size());
  for (std::size_t c = 0; c < reasons.size(); ++c) reasons[c] = {.channel = c, .feature = "mean"};
  const auto row = static_cast<Eigen::Index>(window);
  for (std::size_t i = 0; i < windows.channels.size(); ++i) {
    const auto column = static_cast<Eigen::Index>(i);
    Reason& reason = reasons[windows.channels[i]];
    reason.z = windows.z(row, column);
    reason.feature = features()[windows.feature(row, column)].name;
    reason.share = windows.explaining(row, column);
  }
  sort_by_share(reasons);
  return reasons;
}

}  // namespace

std::vector<double> local_contrast(const Telemetry& telemetry, const WindowGrid& grid) {
  return contrast_of(nearby(telemetry, grid));
}

Detection detect_by_local_contrast(const Telemetry& telemetry, const DetectOptions& options) {
  Detection result;
  const WindowGrid grid =
      window_grid(options.window_seconds, options.stride_seconds, telemetry.step_seconds, 0, telemetry.samples);
  for (std::size_t w = 0; w < grid.count && options.keep_windows; ++w) {
    result.windows.push_back({.begin = grid.first_sample(w), .end = grid.end_sample(w)});
  }
  if (grid.count < kLeastWindows) {
    result.insufficient = too_short(telemetry.samples, least_samples(grid), telemetry.step_seconds);
    return result;
  }
  const RobustWindows windows = nearby(telemetry, grid);
  WindowRanking ranking{.score = contrast_of(windows), .labels = {"LOCAL"}, .members = {}, .reasons = {}};
  ranking.members = {ranking.score};
  for (std::size_t w = 0; w < grid.count; ++w) ranking.reasons.push_back(reasons_of(telemetry, windows, w));
  result.episodes = window_episodes(telemetry, grid, ranking);
  for (Episode& episode : result.episodes) {
    if (!options.every_channel && episode.reasons.size() > kMaxReasons) episode.reasons.resize(kMaxReasons);
    for (std::size_t w = episode.first_window; w <= episode.last_window && w < result.windows.size(); ++w) {
      result.windows[w].tier = std::max(result.windows[w].tier, episode.tier);
      result.windows[w].agreement = episode.agreement;
    }
  }
  for (std::size_t w = 0; w < result.windows.size(); ++w) {
    result.windows[w].score = ranking.score[w];
    if (options.every_channel) result.windows[w].reasons = std::move(ranking.reasons[w]);
  }
  return result;
}

}  // namespace reveal
