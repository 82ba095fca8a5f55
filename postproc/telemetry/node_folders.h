// The files of a node lie in the job's directory itself. Of a job of more than 1,000 nodes they lie in 128 folders in
// it, because file systems serve the names of one directory one after the other: "nodes-3f/n4711.h5". The folder
// follows from the name of the node, so that a node is found without a list. Readers find both layouts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

inline constexpr std::size_t kMostNodesInADirectory = 1000;

/// "nodes-3f"
[[nodiscard]] std::string node_folder(std::string_view node);
/// Whether a directory of this name is such a folder.
[[nodiscard]] bool is_node_folder(std::string_view name) noexcept;

/// A folder of nodes whose names cannot be read: "nodes-3f", "Permission denied".
struct UnreadFolder {
  std::string name;
  std::string why;
};

/// Calls `visit` with each name in the directory and in such folders in it, which are no links, until it returns false.
/// Returns the folders that cannot be read; throws Error if the directory cannot.
std::vector<UnreadFolder> visit_node_files(const std::filesystem::path& directory,
                                           const std::function<bool(const std::filesystem::path&)>& visit);

/// The job's directory of a file: its own, or the one above, if this is the folder of the file's node. A job's
/// directory may be called like such a folder.
[[nodiscard]] std::filesystem::path job_directory_of(const std::filesystem::path& file);

}  // namespace reveal
