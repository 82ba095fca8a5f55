// What of a trace is kept once its report is made, where a site has set `retain = "summary"`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reveal {

/// Replaces each closed trace of `node` ("": of every node) that has a summary made from exactly it by one row a minute
/// (hdf5schema/minute_trace.h), where that is smaller. From then on the summary stands for what the trace was: it is
/// marked as such, and used whatever the settings. A trace that cannot be downsampled stays whole; returns why, a line
/// for each but those of somebody else.
std::vector<std::string> downsample_traces(const std::filesystem::path& directory, const std::string& node = "");

}  // namespace reveal
