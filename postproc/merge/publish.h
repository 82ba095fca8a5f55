// Files of the job directory appear whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reveal {

/// Writes `content` to directory/name by rename, following no symbolic link on the way. Throws Error.
void publish_file(const std::filesystem::path& directory, const std::string& name, std::string_view content);

/// The whole file, at most `limit` bytes of a regular file. Throws Error.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t limit);

}  // namespace reveal
