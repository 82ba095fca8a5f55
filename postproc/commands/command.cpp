#include "postproc/commands/command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

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
  winsize size{};
  if (const auto columns = parse_int(value_of("COLUMNS")); columns.value_or(0) > 0) {
    style.width = static_cast<int>(std::clamp<std::int64_t>(*columns, kNarrowest, kWidest));
  } else if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = std::clamp<int>(size.ws_col, kNarrowest, kWidest);
  }
  return style;
}

AnalysisSettings CommonOptions::settings() const {
  if (!config.empty()) {
    if (!fs::exists(config)) throw Error(config + ": No such file or directory");
    return load_analysis_settings({config});
  }
  std::vector<fs::path> files{"/etc/reveal/reveal.conf"};
  const char* base = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (base != nullptr && *base != '\0') {
    files.push_back(fs::path(base) / "reveal/reveal.conf");
  } else if (home != nullptr && *home != '\0') {
    files.push_back(fs::path(home) / ".config/reveal/reveal.conf");
  }
  return load_analysis_settings(files);
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
