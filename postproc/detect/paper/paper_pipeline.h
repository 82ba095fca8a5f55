// The pipeline of arXiv 2510.26008, sections 4.1 to 4.4, as literally as the text allows.
#pragma once

#include "postproc/detect/pipeline.h"

namespace reveal {

[[nodiscard]] Detection detect_as_in_paper(const Telemetry& telemetry, const DetectOptions& options);

}  // namespace reveal
