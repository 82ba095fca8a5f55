// A node's telemetry as a table of text, for use in other programs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/telemetry/job.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Whether a pattern as of the shell meets the channel's metric or its name.
[[nodiscard]] bool meets_pattern(const std::string& pattern, const Channel& channel);

/// The name as a field of a table (RFC 4180).
[[nodiscard]] std::string csv_field(const std::string& name);
/// The channel's name with its unit: "mem.dirty [bytes]", "cpu.user/cpu0 [ns per 0.1 s]".
[[nodiscard]] std::string column_name(const Channel& channel, double step_seconds);

/// One line per sample: `time` (UTC, ISO 8601), then a column per channel, derived metrics behind measured ones; empty
/// where nothing was measured (RFC 4180). The header has the unit: levels are as they are, "mem.dirty [bytes]",
/// counters are increments per sample, "cpu.user/cpu0 [ns per 0.1 s]". Several traces are one table, node after node,
/// with the column `node` behind `time` and the columns of all nodes.
/// `metrics`: patterns as of the shell for names of metrics or channels; none: all. `out` gets a few megabytes at a
/// time: jobs may be longer than memory. Returns a sentence for each pattern that meets no channel and for each of
/// several traces that cannot be read; throws Error if nothing can be exported.
[[nodiscard]] std::vector<std::string> write_csv(const std::vector<ListedTrace>& traces,
                                                 const std::vector<std::string>& metrics,
                                                 const std::function<void(std::string_view)>& out);

/// One line per sample of a Python process's main thread: `time`, `process`, `place`; the place is empty if its name
/// did not fit into the trace. Throws Error if there are none.
void write_python_csv(const std::filesystem::path& trace, const std::function<void(std::string_view)>& out);

}  // namespace reveal
