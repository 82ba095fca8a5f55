// The LOCAL detector, a second opinion on drifting hosts.
#pragma once

#include <vector>

#include "postproc/features/window_grid.h"
#include "postproc/merge/telemetry.h"

namespace reveal {

/// Sparse z of the windows' features against their running median over 121 windows.
[[nodiscard]] std::vector<double> local_contrast(const Telemetry& telemetry, const WindowGrid& grid);

}  // namespace reveal
