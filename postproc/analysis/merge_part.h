// The summaries of a part of a job's nodes in one file, decompressed, parsed and checked. The parts of a job of
// thousands of nodes are written at the same time by as many processes; the report then reads these files instead of
// the summaries, and merges the same numbers. The points of timelines stay in the summaries: a report draws a few.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/file_pattern.h"
#include "postproc/analysis/node_summary.h"

namespace reveal {

/// Nodes of a part; a report of fewer reads their summaries at once.
inline constexpr std::size_t kNodesOfPart = 256;
inline constexpr std::size_t kMostParts = 1024;

struct PartNumber {
  std::size_t number = 1;  // 1 to `count`
  std::size_t count = 1;
  bool operator==(const PartNumber&) const = default;
};

/// "3/8"; nothing for any other text.
[[nodiscard]] std::optional<PartNumber> part_number(std::string_view text);
/// The rank of this process among those that mpirun or srun started; the only part if neither did. Throws Error.
[[nodiscard]] PartNumber part_of_environment(const Environment& environment);

/// The traces of the part: as many as the others have, and next to each other.
[[nodiscard]] std::span<const ListedTrace> traces_of_part(std::span<const ListedTrace> all, PartNumber part);

/// A file as it is now: another size or time, another content.
struct FileState {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileState&) const = default;
};
/// Nothing where there is no such file.
[[nodiscard]] std::optional<FileState> state_of_summary(const ListedTrace& trace);

struct PartNode {
  const ListedTrace& trace;
  const NodeSummary& summary;
  FileState state;  // state of the file from which the summary was read
};

/// Throws Error.
void write_part(const std::filesystem::path& directory, PartNumber part, const std::string& config_hash,
                std::span<const PartNode> nodes);

using Remark = std::function<void(const std::string&)>;

/// The summaries that lie in parts, in the order of `traces`; empty where there is no part, and nothing for a node that
/// is in none, or has a newer summary. `remark` gets a line for each part that is missing, or cannot be used as a
/// whole.
[[nodiscard]] std::vector<std::optional<NodeSummary>> summaries_in_parts(const std::filesystem::path& directory,
                                                                         std::span<const ListedTrace> traces,
                                                                         const std::string& config_hash,
                                                                         std::size_t threads, const Remark& remark);

/// Removes the parts, which are of no use once a report was made of them.
void remove_parts(const std::filesystem::path& directory) noexcept;

}  // namespace reveal
