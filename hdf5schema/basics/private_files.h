// Directories and files of one user, made in places where others may have put links.
#pragma once

#include <filesystem>
#include <string>

namespace reveal {

/// Makes `path` (mode 0700) and what is missing above it. Throws Error if it cannot be made, belongs to somebody else
/// or can be written by others.
void make_private_directory(const std::string& path);

/// The first of PATH, PATH.1, PATH.2, ... that is a directory only this user can enter, or can be made one (mode 0700).
/// In /tmp anybody may take a name first, and keep it. All processes of a user on a node get the same. Throws Error.
[[nodiscard]] std::string private_directory(const std::string& path);

/// Throws Error if no file can be written there.
void require_writable(const std::string& path);

/// Across file systems, with its time of modification; `to` appears whole or not at all. Throws Error; `from` then
/// stays.
void move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace reveal
