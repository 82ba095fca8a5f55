// A job directory: which traces it holds and which nodes the job should have had.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/telemetry/node_folders.h"

namespace reveal {

struct ListedTrace {
  std::filesystem::path path;
  std::string node;   // from the file name; that of the trace's header replaces it
  bool part = false;  // not closed: `.part`
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
};

/// NODE.h5 and NODE.h5.part by name, and NODE.h5.earlier where the segment after it is missing; also those in folders
/// of nodes (node_folders.h). Throws Error when `directory` cannot be read or holds no trace. `unread` gets the folders
/// of nodes that cannot be read; without it, they are an error, too.
[[nodiscard]] std::vector<ListedTrace> list_traces(const std::filesystem::path& directory,
                                                   std::vector<UnreadFolder>* unread = nullptr);

/// The traces of one node, found by name: the directory is not read, because a job may have thousands of files in it.
[[nodiscard]] std::vector<ListedTrace> traces_of_node(const std::filesystem::path& directory, const std::string& node);

/// Whether the directory has more traces than `count`: reads nothing but names. Throws Error.
[[nodiscard]] bool has_more_traces_than(const std::filesystem::path& directory, std::size_t count);

/// Nodes of the job as its environment names them (SLURM_JOB_NODELIST), folded; "" when unknown.
[[nodiscard]] std::string expected_nodes(const Snapshot& snapshot);

}  // namespace reveal
