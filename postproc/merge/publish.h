// Files of the job directory appear whole or not at all.
#pragma once

#include <filesystem>
#include <string>

#include "hdf5schema/basics/private_files.h"

namespace reveal {

/// The whole file, at most `limit` bytes of a regular file. Throws Error.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t limit);

}  // namespace reveal
