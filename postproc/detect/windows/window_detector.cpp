#include "postproc/detect/windows/window_detector.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "postproc/numerics/percentile.h"

namespace reveal {

namespace {

constexpr double kMinQuartile = 0.02;
constexpr double kSmallestDistance = 1e-9;

std::map<int, WindowDetector>& detector_registry() {
  static std::map<int, WindowDetector> all;
  return all;
}

}  // namespace

RegisteredWindowDetector::RegisteredWindowDetector(int order, const WindowDetector& detector) {
  detector_registry().emplace(order, detector);
}

const std::vector<WindowDetector>& window_detectors() {
  static const std::vector<WindowDetector> all = [] {
    std::vector<WindowDetector> list;
    for (const auto& [order, detector] : detector_registry()) list.push_back(detector);
    return list;
  }();
  return all;
}

std::vector<double> robust_score(std::vector<double> score) {
  if (score.empty()) return score;
  const double median = percentile(score, 50);
  const double quartile = std::max(percentile(score, 75) - median, kMinQuartile);
  for (double& v : score) v = (v - median) / quartile;
  return score;
}

std::vector<double> smooth(const std::vector<double>& score) {
  std::vector<double> result(score.size());
  for (std::size_t w = 0; w < score.size(); ++w) {
    const double before = score[w == 0 ? 0 : w - 1];
    const double after = score[std::min(w + 1, score.size() - 1)];
    result[w] = (before + 2 * score[w] + after) / 4;
  }
  return result;
}

std::vector<double> robust_score_of_distance(std::vector<double> score) {
  for (double& v : score) v = std::log(std::max(v, kSmallestDistance));
  return smooth(robust_score(std::move(score)));
}

}  // namespace reveal
