// The default pipeline: the gap scan decides, window detectors are shown beside it and decide nothing.
#pragma once

#include "postproc/detect/pipeline.h"

namespace reveal {

[[nodiscard]] Detection detect_by_gap_scan(const Telemetry& telemetry, const DetectOptions& options);

}  // namespace reveal
