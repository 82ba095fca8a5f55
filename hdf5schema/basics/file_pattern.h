// Names of files and directories made from the names of a job.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// The value of an environment variable, "" if unset. Tests bring their own.
using Environment = std::function<std::string(const char* name)>;
[[nodiscard]] std::string process_environment(const char* name);
[[nodiscard]] std::vector<std::string> names_of_process_environment();

/// The nodes' names end up in file names: letters, digits and "._+=@-" stay, a leading dot does not.
[[nodiscard]] std::string file_name_part(std::string_view text);

/// Whether a name that a file has, as the node's in a trace, can be that of an entry of one directory: any other one
/// would lead elsewhere.
[[nodiscard]] bool is_file_name(std::string_view name) noexcept;

/// Slurm's file name patterns, of those that make sense for a directory: %j and %A job, %a array index, %x job name,
/// %u user, %% a percent sign. Values are made harmless; throws Error for other letters.
[[nodiscard]] std::string expand_pattern(std::string_view pattern, const Environment& environment);

}  // namespace reveal
