#include "postproc/detect/paper/detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace reveal {

namespace {

std::map<int, Detector>& registry() {
  static std::map<int, Detector> all;
  return all;
}

}  // namespace

RegisteredDetector::RegisteredDetector(int order, const Detector& detector) {
  registry().emplace(order, detector);
}

const std::vector<Detector>& detectors() {
  static const std::vector<Detector> all = [] {
    std::vector<Detector> list;
    for (const auto& [order, detector] : registry()) list.push_back(detector);
    return list;
  }();
  return all;
}

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double position = percent / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace reveal
