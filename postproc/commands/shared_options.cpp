#include "postproc/commands/shared_options.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/shell_word.h"
#include "postproc/analysis/runs_of_job.h"
#include "postproc/commands/terminal.h"
#include "postproc/detect/pipeline.h"
#include "postproc/telemetry/node_folders.h"
#include "postproc/words/lists.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

/// The default name that reveal-run and the Slurm plugin give a job's directory: reveal-4711.
constexpr std::string_view kJobDirectory = "reveal-";

/// Directories of a job whose number is in none of their names: those here, else those of the user's history.
std::vector<std::filesystem::path> recorded_directories(const std::string& number) {
  std::vector<std::filesystem::path> found = runs_of_job(number, std::filesystem::path("."));
  return found.empty() ? runs_of_job(number, state_place()) : found;
}

/// "" where no run has the number. Throws Error where several have it.
std::string recorded_directory(const std::string& number) {
  constexpr std::size_t kShown = 3;
  if (!is_number_of_job(number)) return "";
  const std::vector<std::filesystem::path> found = recorded_directories(number);
  if (found.size() > 1) {
    std::vector<std::string> names;
    names.reserve(found.size());
    for (const auto& path : found) names.push_back(shell_word(printable(typed(path.lexically_normal().string()))));
    throw Error(fmt::format("job {} has {} directories: {}; give one of them", number, found.size(),
                            listed(names, kShown, ", ")));
  }
  return found.empty() ? "" : found.front().lexically_normal().string();
}

}  // namespace

bool is_missing(const std::string& path) {
  std::error_code error;
  return std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
}

void add_common_options(CLI::App& app, CommonOptions& common) {
  app.add_flag("--json", common.json, "print JSON instead of text");
  app.add_option("--color", common.color, "auto (default: on a terminal), always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("--no-color", common.no_color, "same as --color=never; NO_COLOR has the same effect")
      ->excludes("--color");
}

void add_config_option(CLI::App& app, CommonOptions& common) {
  app.add_option("--config", common.config, "read this reveal.conf instead of the site's and yours")->type_name("FILE");
}

void add_job_directory(CLI::App& app, std::string& directory) {
  app.add_option("dir", directory, "the job's directory, or its number")->required()->type_name("DIR");
}

void add_optional_job_directory(CLI::App& app, std::string& directory) {
  app.add_option("dir", directory, "the job's directory, or its number (default: your newest ./reveal-*)")
      ->type_name("DIR");
}

void need_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (status.type() == fs::file_type::not_found) {
    const bool path = directory.find('/') != std::string::npos || directory.starts_with(kJobDirectory);
    std::string missing = path ? directory : fmt::format("{} or {}{} here", directory, kJobDirectory, directory);
    if (is_number_of_job(directory)) missing += ", and none of your runs is job " + directory;
    throw Error("no directory " + missing + "; reveal list lists your runs");
  }
  if (!fs::exists(status)) throw Error(directory + ": " + error.message());
  if (!fs::is_directory(status)) throw Error(directory + ": not a directory; give the job's directory, reveal-JOBID/");
}

std::string directory_of_number(const std::string& path) {
  // A confined child cannot look into other directories: it has the answer of its parent.
  static std::map<std::string, std::string> known;
  if (!is_missing(path) || path.find('/') != std::string::npos) return path;
  const std::string named = std::string(kJobDirectory) + path;
  if (std::error_code error; std::filesystem::is_directory(named, error)) return named;
  const auto [answer, fresh] = known.try_emplace(path);
  if (fresh) answer->second = recorded_directory(path);
  return answer->second.empty() ? path : answer->second;
}

std::string job_directory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path.empty()) return newest_job_directory();
  if (!fs::is_regular_file(path, error)) return directory_of_number(path);
  const std::string parent = job_directory_of(path).string();
  return parent.empty() ? "." : parent;
}

std::string newest_job_directory() {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string newest;
  fs::file_time_type at;
  for (const fs::directory_entry& entry : fs::directory_iterator(".", error)) {
    const std::string name = entry.path().filename().string();
    struct stat status {};
    const bool own = name.starts_with(kJobDirectory) && ::lstat(name.c_str(), &status) == 0 &&
                     S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
    if (!own) continue;
    const fs::file_time_type written = entry.last_write_time(error);
    if (!newest.empty() && written <= at) continue;
    newest = name;
    at = written;
  }
  if (newest.empty()) {
    throw Error(fmt::format("no directory {}* of yours here: give the job's directory; reveal list lists your runs",
                            kJobDirectory));
  }
  return newest;
}

std::string typed(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = fs::path(directory).lexically_normal();
  const fs::path here = fs::current_path(error);
  if (!path.is_absolute() || error) return directory;
  const fs::path below = path.lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? directory : below.string();
}

const CLI::Validator& finite() {
  static const CLI::Validator validator(
      [](const std::string& value) {
        return std::isfinite(std::strtod(value.c_str(), nullptr)) ? std::string() : "not a number: " + value;
      },
      "");
  return validator;
}

std::string known_pipeline(const std::string& name) {
  try {
    static_cast<void>(find_pipeline(name));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace reveal
