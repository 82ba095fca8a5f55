// A node's telemetry as a table of text, for use in other programs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/telemetry/job.h"

namespace reveal {

/// The name as a field of a table (RFC 4180).
[[nodiscard]] std::string csv_field(const std::string& name);

/// The table of TelemetryTable as text (RFC 4180): `time` (begin of the step, UTC, ISO 8601), for several traces
/// `node`, and a column per channel; empty where nothing was measured. `out` gets a megabyte at a time. Returns
/// TelemetryTable::left_out(); throws Error if nothing can be exported.
[[nodiscard]] std::vector<std::string> write_csv(const std::vector<ListedTrace>& traces,
                                                 const std::vector<std::string>& metrics,
                                                 const std::function<void(std::string_view)>& out);

/// One line per sample of a Python process's main thread: `time`, `node`, `process`, `place`, `weight`; the place is
/// empty if its name did not fit into the trace. Returns a sentence for each of several traces that cannot be read.
/// Throws Error if there are no samples.
[[nodiscard]] std::vector<std::string> write_python_csv(const std::vector<ListedTrace>& traces,
                                                        const std::function<void(std::string_view)>& out);

}  // namespace reveal
