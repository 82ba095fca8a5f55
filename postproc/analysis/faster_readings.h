// The intervals in which the collector read some probes faster, from the events that mark them in the trace.
#pragma once

#include <optional>

#include "postproc/report/report.h"
#include "postproc/telemetry/load.h"

namespace reveal {

/// Nothing where there was none.
[[nodiscard]] std::optional<NodeFasterReading> faster_reading_of(const NodeTrace& trace);

}  // namespace reveal
