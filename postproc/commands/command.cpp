#include "postproc/commands/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

std::vector<CommandSpec>& registered() {
  static std::vector<CommandSpec> specs;
  return specs;
}

}  // namespace

TextStyle CommonOptions::style() const {
  const char* plain = std::getenv("NO_COLOR");
  return {.colour = !no_color && (plain == nullptr || *plain == '\0') && ::isatty(STDOUT_FILENO) == 1};
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
