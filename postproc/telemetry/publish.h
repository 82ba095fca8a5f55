// Files of the job directory appear whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {

enum class Output : std::uint8_t {
  stream,  // may be a pipe or a device
  whole,   // replaced at once, and readable by all users: a service reads it
};

/// Writes a file that the user names himself. In a child that may write none (send_outputs_to()), the reader of the
/// other end writes it. Throws Error.
void write_output(const std::filesystem::path& path, std::string_view content, Output how = Output::stream);
/// Makes write_output() write to this pipe.
void send_outputs_to(int pipe) noexcept;
/// The other end: writes the incoming files until it ends, if they are among `allowed`. Throws Error.
void write_outputs_from(int pipe, const std::vector<std::filesystem::path>& allowed, Output how = Output::stream);

}  // namespace reveal
