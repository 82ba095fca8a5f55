// The program that a command line runs: `taskset -c 0 python3 train.py` runs train.py. Of the arguments, only the base
// name of a program, a script or a Python module is ever returned: others may be secrets.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace reveal {

/// Whether a program only runs another one, so that its name does not identify a job: python3.11, bash, mpirun, srun,
/// torchrun, ...
[[nodiscard]] bool is_interpreter(std::string_view program) noexcept;
/// Whether it runs a script: python3.11, bash, Rscript, ...
[[nodiscard]] bool runs_scripts(std::string_view program) noexcept;

/// Whether the name of a job identifies it: neither an interpreter, nor a name that Slurm gives a job without one.
[[nodiscard]] bool identifies(std::string_view name) noexcept;

/// How words of a command line are distinguished from options and their values.
struct CommandWords {
  std::function<bool(const std::string&)> is_script;   // may be a script
  std::function<bool(const std::string&)> is_program;  // may be a program, here or in PATH
};
/// By the file system, for a command that runs here.
[[nodiscard]] const CommandWords& words_of_this_node();
/// By their form, for a command with files that are not here or must not be opened.
[[nodiscard]] const CommandWords& words_by_their_looks();

/// "" if that cannot be determined, as for `bash -c CODE`.
[[nodiscard]] std::string program_name(std::span<const std::string> command, const CommandWords& words);

/// The name that a person gives the job of this command: `given` by the batch system, or, where that does not identify
/// the job ("wrap", "python3"), the name of its program if that can be determined.
[[nodiscard]] std::string job_name(std::string_view given, std::span<const std::string> command,
                                   const CommandWords& words);

}  // namespace reveal
