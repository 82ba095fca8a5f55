#include "postproc/detect/paper/detector.h"

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

}  // namespace reveal
