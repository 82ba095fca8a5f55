// Against the running median of two minutes (or twenty hours) around: sees a step on a drifting host, and nothing that
// lasts longer. Good on some hosts, bad on others, so the ensemble does without.
#include "postproc/detect/local_contrast.h"

#include "postproc/detect/window_detector.h"

namespace reveal {

std::vector<double> local_contrast(const Telemetry& telemetry, const WindowGrid& grid) {
  constexpr Baseline kNearby[] = {Baseline::nearby};
  const std::vector<RobustWindows> views = robust_windows(telemetry, grid, kNearby, 0);
  for (const WindowDetector& detector : window_detectors()) {
    if (detector.label == "Z") return detector.score(views.front(), 0);
  }
  return std::vector<double>(grid.count);
}

}  // namespace reveal
