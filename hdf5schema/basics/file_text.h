// The whole of a file as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace reveal {

/// Reads a text of the kernel, where it does not matter why it ends: up to its end or the first error, such as a
/// process that ended meanwhile (ESRCH), a folder, a server that is gone. An istreambuf_iterator would throw then.
[[nodiscard]] inline std::string file_text(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

/// The same for a file of any length: at most its first `most` bytes.
[[nodiscard]] std::string file_text(const std::string& path, std::size_t most);

/// Whether the last name of a path may be a symbolic link: not in directories where another user can put one.
enum class Follow : bool { no, yes };
enum class FileOf : bool { anybody, ours };

/// Reads at most `limit` bytes of a regular file. Throws Error.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t limit,
                                         FileOf owner = FileOf::anybody, Follow follow = Follow::no);

}  // namespace reveal
