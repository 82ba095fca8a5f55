// Turns a ranking of windows into episodes, for monitoring that runs for days: so many strong ones a week at most,
// those that every detector finds.
#pragma once

#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/windows/ensemble.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct WindowRun {
  std::size_t first = 0;  // window
  std::size_t last = 0;   // inclusive
  double score = 0;       // the largest
  Tier tier = Tier::none;
  std::vector<Method> methods;  // that see it
};

/// By falling score.
[[nodiscard]] std::vector<WindowRun> window_runs(const WindowRanking& ranking, double days);

/// `ranking` with reasons. Windows of the episodes count from the first one of `grid`.
[[nodiscard]] std::vector<Episode> window_episodes(const Telemetry& telemetry, const WindowGrid& grid,
                                                   const WindowRanking& ranking);

/// Names the windows of which at least half lies in the episode; the nearest one when there is none.
void name_windows(const WindowGrid& grid, Episode& episode);

}  // namespace reveal
