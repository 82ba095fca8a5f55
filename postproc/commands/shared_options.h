// Options, and checks of what was given for them, that several subcommands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "postproc/commands/command.h"

namespace reveal {

/// --json and --no-color
void add_common_options(CLI::App& app, CommonOptions& common);
/// --config
void add_config_option(CLI::App& app, CommonOptions& common);
/// DIR, required
void add_job_directory(CLI::App& app, std::string& directory);
/// DIR; without it, the user's newest ./reveal-* is meant, see newest_job_directory().
void add_optional_job_directory(CLI::App& app, std::string& directory);

/// Whether nothing has this path; false where that cannot be told.
[[nodiscard]] bool is_missing(const std::string& path);

/// Throws Error with the right usage.
void need_directory(const std::string& directory);

/// reveal-4711 for 4711, if only that exists; else the directory of the user's run with that number of a job (4710_3,
/// 4711+1), here or in reveal's history. The path itself where there is none. Throws Error where several have it.
[[nodiscard]] std::string directory_of_number(const std::string& path);
/// The job's directory if a file in it was given, reveal-4711/n01.h5, or the number of a job, 4711; "" stands for the
/// newest. Throws Error where there is none.
[[nodiscard]] std::string job_directory(const std::string& path);

/// The newest of the user's own job directories here: "reveal-4711". Throws Error where there is none.
[[nodiscard]] std::string newest_job_directory();

/// The path as a user would type it: relative to the current directory, if it is below.
[[nodiscard]] std::string typed(const std::string& directory);

/// A range lets "nan" through.
[[nodiscard]] const CLI::Validator& finite();

/// A check for CLI11: returns what is wrong with the name, or "".
[[nodiscard]] std::string known_pipeline(const std::string& name);

}  // namespace reveal
