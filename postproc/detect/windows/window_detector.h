// A detector of the ensemble: how strange each window is, on a scale that all of them share. One file each.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <string_view>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/windows/robust_windows.h"

namespace reveal {

struct WindowDetector {
  Method method = Method::robust_z;
  std::string_view help;
  double weight;        // in the ensemble's mean
  double weight_many;   // with more than kManyChannels channels that vary
  bool by_time_of_day;  // takes part a second time, without the share that the time of day explains
  std::vector<double> (*score)(const RobustWindows&, std::uint64_t seed);
};

inline constexpr std::size_t kManyChannels = 100;

/// All registered ones in their order.
[[nodiscard]] const std::vector<WindowDetector>& window_detectors();

struct RegisteredWindowDetector {
  RegisteredWindowDetector(int order, const WindowDetector& detector);
};

/// Distance from the median in units of its distance to the upper quartile (at least 0.02): usual scores are around 0,
/// and a detector's upper tail keeps its shape.
[[nodiscard]] std::vector<double> robust_score(std::vector<double> score);

/// Weights 1 2 1 over neighbouring windows: they share two thirds of their samples.
[[nodiscard]] std::vector<double> smooth(const std::vector<double>& score);

/// smooth(robust_score(log(score))), for scores that are distances.
[[nodiscard]] std::vector<double> robust_score_of_distance(std::vector<double> score);

}  // namespace reveal
