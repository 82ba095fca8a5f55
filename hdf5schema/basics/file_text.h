// A file's text where it does not matter why it ends.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace reveal {

/// What can be read of it, up to its end or the first error: a process that ended meanwhile (ESRCH), a folder, a server
/// that is gone. An istreambuf_iterator would throw then.
[[nodiscard]] inline std::string file_text(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace reveal
