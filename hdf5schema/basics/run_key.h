// The key of a run in the history: a hash of its command. No argument is kept anywhere.
#pragma once

#include <span>
#include <string>

namespace reveal {

/// `bash`, `srun --pty bash -l`: a person types what runs, or it is read from standard input.
[[nodiscard]] bool runs_something_unknown(std::span<const std::string> command);

/// 32 hexadecimal digits of the program's base name and its arguments. A script counts by its absolute path: `python3
/// train.py` and `./run.sh` run other programs in another directory. "" where the command runs something unknown.
[[nodiscard]] std::string run_key(std::span<const std::string> command);

}  // namespace reveal
