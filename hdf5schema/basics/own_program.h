// The program that runs, and the other programs of the package, which are installed beside it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace reveal {

/// The path of this program; "" where that is not known.
[[nodiscard]] std::filesystem::path own_path();

/// The path of `program` beside this one; else the name, which is looked up in PATH.
[[nodiscard]] std::string beside_us(const std::string& program);

/// The first program of this name in the directories of `path`, as $PATH lists them; "" if there is none.
[[nodiscard]] std::string find_in_path(const std::string& program, std::string_view path);
/// The same for the PATH of this process.
[[nodiscard]] std::string find_in_path(const std::string& program);

[[nodiscard]] bool is_executable(const std::filesystem::path& path);

}  // namespace reveal
