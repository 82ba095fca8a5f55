// The telemetry of a job's nodes as a Parquet file, for use in other programs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/telemetry/job.h"

namespace reveal {

/// The table of TelemetryTable: `time` (UTC, microseconds), `node`, and a column of optional numbers per channel; null
/// where nothing was measured. The file's metadata has the unit and the description of each column as JSON
/// ("reveal.columns"). Returns TelemetryTable::left_out(); throws Error if nothing can be exported.
[[nodiscard]] std::vector<std::string> write_parquet(const std::vector<ListedTrace>& traces,
                                                     const std::vector<std::string>& metrics,
                                                     const std::function<void(std::string_view)>& out);

}  // namespace reveal
