// The part of a trace that remains after its report was made, if a site has set `retain = "summary"`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reveal {

/// Replaces each closed trace of `node` ("": of every node) that has a summary made from exactly it by one row a minute
/// (hdf5schema/minute_trace.h), where that is smaller. From then on the summary stands for the full trace: it is marked
/// as such, and used whatever the settings. A trace that cannot be downsampled stays whole; returns the reasons, a line
/// for each, except for traces of other users.
std::vector<std::string> downsample_traces(const std::filesystem::path& directory, const std::string& node = "");

}  // namespace reveal
