// Reads directories of other users in a child process that can read nothing else, change nothing, and use only a
// bounded amount of memory and time: HDF5 was not written for hostile files.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "postproc/commands/command.h"

namespace reveal {

/// Something somebody else made.
struct Foreign {
  std::filesystem::path path;  // the first thing that is not ours: the directory, or a file in it
  std::string owner;           // by name, where it has one
};

/// The first of these files and directories that belongs to another user, or where the entries of a directory are read
/// holds files of one. A link to a file, or to nothing, belongs to its maker.
[[nodiscard]] std::optional<Foreign> foreign_part(const std::vector<std::filesystem::path>& inputs,
                                                  bool entries = true);

/// Throws Error: nothing is written into a directory of somebody else's.
void need_own_directory(const std::string& directory);

/// Runs `work` in a child that may read below the inputs, and a few files of the system and the caller's settings; its
/// exit status, `failure` where it throws. The files it was to write are written here. Throws Error when the child did
/// not come to an end by itself. Call it while there is one thread.
[[nodiscard]] int run_confined(const Inputs& inputs, const Foreign& foreign, int failure,
                               const std::function<int()>& work);

struct ConfinedLimits {
  std::size_t answer = std::size_t{32} << 20;  // bytes
  std::chrono::seconds cpu{60};
  std::chrono::seconds time{600};  // in all: a file system may hang
};

/// The result of `work` in such a child, for a directory of anybody's: for commands that read many directories of
/// different owners, with a child for each. The child prints nothing. Its answer is as hostile as the directory. Throws
/// Error with what `work` threw, or with what happened to the child. Call it while there is one thread.
[[nodiscard]] std::string query_confined(const std::filesystem::path& directory, const ConfinedLimits& limits,
                                         const std::function<std::string()>& work);

}  // namespace reveal
