#include "postproc/commands/command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/terminal.h"
#include "postproc/words/sparkline.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr int kNarrowest = 40;
constexpr int kWidest = 100;

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::vector<CommandSpec>& registered() {
  static std::vector<CommandSpec> specs;
  return specs;
}

}  // namespace

TextStyle CommonOptions::style() const {
  TextStyle style;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const bool wanted = value_of("NO_COLOR").empty() && terminal && value_of("TERM") != "dumb";
  style.colour = !no_color && (color == "always" || (color == "auto" && wanted));
  style.blocks = terminal && writes_utf8();
  winsize size{};
  if (const auto columns = parse_int(value_of("COLUMNS")); columns.value_or(0) > 0) {
    style.width = static_cast<int>(std::clamp<std::int64_t>(*columns, kNarrowest, kWidest));
  } else if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = std::clamp<int>(size.ws_col, kNarrowest, kWidest);
  }
  return style;
}

const std::string& CommonOptions::config_file() const {
  if (!fs::exists(config)) throw Error(config + ": No such file or directory");
  return config;
}

Config CommonOptions::configuration(ConfigOwner of) const {
  Config read;
  if (!config.empty()) {
    read.read_file(config_file(), ConfigOwner::site);
    return read;
  }
  for (const ConfigPlace& place : config_places(own_path(), process_environment)) {
    if (of == ConfigOwner::user || place.owner == ConfigOwner::site) read.read_file(place.file, place.owner);
  }
  return read;
}

AnalysisSettings CommonOptions::settings() const {
  const Config read = configuration();
  for (const std::string& problem : read.problems_of({"report", "rule"})) complain(problem);
  return analysis_settings(read);
}

RegisteredCommand::RegisteredCommand(const CommandSpec& spec) {
  registered().push_back(spec);
}

std::vector<CommandSpec> commands() {
  std::vector<CommandSpec> sorted = registered();  // in link order until here
  std::sort(sorted.begin(), sorted.end(), [](const CommandSpec& a, const CommandSpec& b) { return a.order < b.order; });
  return sorted;
}

}  // namespace reveal
