// A score for every window, which `reveal score` writes; on servers, sampled for days, strange windows are episodes
// themselves. The report of a job uses neither, whatever its step: at more than a second per sample, its windows of
// three seconds would be single samples, and the reasons of all of them many times as large as the telemetry.
#pragma once

#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_block.h"
#include "postproc/detect/windows/ensemble.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

class WindowScores {
 public:
  /// Both outlive it.
  WindowScores(const Telemetry& telemetry, const DetectOptions& options);

  /// Whether the window detectors rank the windows and attribute the score of each.
  [[nodiscard]] bool ranked() const { return options_.every_channel || !scale_.has_start_and_end; }
  void add(const BlockScan& found);
  /// After all blocks: fills `detection.windows`, and adds a server's strange ones to its episodes.
  void finish(Detection& detection);

 private:
  void rank(Detection& detection);
  void add_strange_windows(const WindowGrid& grid, const WindowRanking& ranking, Detection& detection) const;
  void mark(const Detection& detection);

  const Telemetry& telemetry_;
  const DetectOptions& options_;
  ScanScale scale_;
  WindowGrid grid_;
  std::vector<WindowScore> windows_;
};

}  // namespace reveal
