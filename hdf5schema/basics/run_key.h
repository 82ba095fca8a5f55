// The key of a run in the history: a hash of its command. No argument is kept anywhere.
#pragma once

#include <span>
#include <string>

namespace reveal {

/// 32 hexadecimal digits of the program's base name and its arguments. The script of an interpreter counts by its
/// absolute path: `python3 train.py` in two directories runs two programs.
[[nodiscard]] std::string run_key(std::span<const std::string> command);

}  // namespace reveal
