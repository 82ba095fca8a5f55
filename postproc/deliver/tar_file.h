// Archives as tar writes them (POSIX ustar): what an administrator can read before it is sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reveal {

struct ArchivedFile {
  std::string name;  // at most 100 bytes
  std::string text;
};

/// The files with mode 0600 and without an owner's name, as of `utc_seconds`.
[[nodiscard]] std::string tar_file(const std::vector<ArchivedFile>& files, std::int64_t utc_seconds);

}  // namespace reveal
