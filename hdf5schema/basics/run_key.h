// The key of a run in the history: a hash of its command. No argument is kept anywhere.
#pragma once

#include <span>
#include <string>

namespace reveal {

/// 32 hexadecimal digits of the program's base name and its arguments. A script counts by its absolute path: `python3
/// train.py` and `./run.sh` run other programs in another directory. "" for an interpreter alone, such as a shell that
/// is typed into: what it runs is not known.
[[nodiscard]] std::string run_key(std::span<const std::string> command);

}  // namespace reveal
