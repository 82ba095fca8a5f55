// A node's telemetry as a table of text, for whoever goes on with it elsewhere.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// One line per sample: `time` (UTC, ISO 8601), then a column per channel, "cpu.user/cpu0": counters as increments per
/// sample, levels as they are, derived metrics behind what was measured; empty where nothing was measured (RFC 4180).
/// `metrics`: patterns as of the shell for names of metrics or channels; none: all. `out` gets a few megabytes at a
/// time: jobs may be longer than memory. Throws Error for what is no trace, and for a pattern that meets no channel.
void write_csv(const std::filesystem::path& trace, const std::vector<std::string>& metrics,
               const std::function<void(std::string_view)>& out);

}  // namespace reveal
