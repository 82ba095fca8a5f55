#include "postproc/commands/shared_options.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "postproc/commands/terminal.h"
#include "postproc/detect/pipeline.h"

namespace reveal {
namespace {

/// The default name that reveal-run and the Slurm plugin give a job's directory: reveal-4711.
constexpr std::string_view kJobDirectory = "reveal-";

}  // namespace

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
  app.add_option("dir", directory, "the job's directory")->required()->type_name("DIR");
}

void add_optional_job_directory(CLI::App& app, std::string& directory) {
  app.add_option("dir", directory, "the job's directory, or the number of a job (default: your newest ./reveal-*)")
      ->type_name("DIR");
}

void need_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (status.type() == fs::file_type::not_found) {
    const bool path = directory.find('/') != std::string::npos || directory.starts_with(kJobDirectory);
    const std::string missing = path ? directory : fmt::format("{} or {}{} here", directory, kJobDirectory, directory);
    throw Error("no directory " + missing + "; reveal list lists your runs");
  }
  if (!fs::exists(status)) throw Error(directory + ": " + error.message());
  if (!fs::is_directory(status)) throw Error(directory + ": not a directory; give the job's directory, reveal-JOBID/");
}

std::string directory_of_number(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string of_job = std::string(kJobDirectory) + path;
  const bool missing = fs::status(path, error).type() == fs::file_type::not_found;
  return missing && path.find('/') == std::string::npos && fs::is_directory(of_job, error) ? of_job : path;
}

std::string job_directory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path.empty()) return newest_job_directory();
  if (!fs::is_regular_file(path, error)) return directory_of_number(path);
  const std::string parent = fs::path(path).parent_path().string();
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

std::string chosen_job_directory(const std::string& given) {
  std::string directory = job_directory(given);
  if (given.empty()) complain("no directory was given: this is the newest here, " + directory);
  return directory;
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
