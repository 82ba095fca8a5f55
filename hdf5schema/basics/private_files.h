// Directories and files of one user, made in places where others may have put links.
#pragma once

#include <filesystem>
#include <string>

namespace reveal {

/// Makes `path` (mode 0700) and what is missing above it. Throws Error if it cannot be made, belongs to somebody else
/// or can be written by others.
void make_private_directory(const std::string& path);

/// Throws Error if no file can be written there.
void require_writable(const std::string& path);

/// Across file systems, with its time of modification; `to` appears whole or not at all. Throws Error; `from` then
/// stays.
void move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace reveal
