#include "postproc/commands/shared_options.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "postproc/detect/pipeline.h"

namespace reveal {

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

void need_directory(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (!fs::exists(status)) throw Error(directory + ": No such file or directory");
  if (!fs::is_directory(status)) throw Error(directory + ": not a directory; give the job's directory, reveal-JOBID/");
}

std::string job_directory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return path;
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
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
