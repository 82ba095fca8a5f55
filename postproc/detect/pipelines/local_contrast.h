// The LOCAL detector: against the running median of two minutes (or twenty hours) around. It sees a step on a drifting
// host, and nothing that lasts longer. Good on some hosts, bad on others: the ensemble does without, and who wants it
// asks for the pipeline `local`.
#pragma once

#include <vector>

#include "postproc/detect/pipeline.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Sparse z of the windows' features against their running median over 121 windows.
[[nodiscard]] std::vector<double> local_contrast(const Telemetry& telemetry, const WindowGrid& grid);

/// Windows ranked by it alone, with the tiers and the budget of the ensemble's.
[[nodiscard]] Detection detect_by_local_contrast(const Telemetry& telemetry, const DetectOptions& options);

}  // namespace reveal
