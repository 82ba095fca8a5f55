// reveal-run: runs a command unchanged and tells afterwards what slowed it down.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "wrapper/collector.h"
#include "wrapper/profiled_run.h"
#include "wrapper/settings.h"

namespace {

using namespace reveal;

constexpr int kUsageError = 125;  // as env, timeout and nice do: never the status of the command

constexpr const char* kExamples = R"(
Examples:
  reveal-run -- ./train.sh                       profile one command, print the report at the end
  mpirun -n 8 reveal-run -- ./solver input.nml   one trace per node, one report
  srun reveal-run --output out/%j -- python train.py

The exit status is the command's: 127 not found, 126 not executable, 128+n ended by signal n; 125 is a mistake in
reveal-run's own options, before anything was started. Settings also come from REVEAL_* (REVEAL_INTERVAL=1s),
~/.config/reveal/reveal.conf (not for root) and the site's reveal.conf, section [run].)";

class Help final : public CLI::Formatter {
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "Usage: " + (name.empty() ? app->get_name() : name) + " [options] -- COMMAND...\n";
  }
};

int usage_error(const std::string& text) {
  std::fprintf(stderr, "reveal-run: %s\n", text.c_str());
  return kUsageError;
}

/// The section [run]; the others are for other programs.
void read_config(const std::string& path, Settings& settings, std::vector<std::string>& warnings) {
  const ConfigFile config = parse_config(file_text(path), path);
  for (const ConfigProblem& problem : config.problems) {
    if (problem.section.empty() || problem.section == "run") warnings.push_back(problem.text);
  }
  std::vector<ConfigLine> lines;
  for (const ConfigEntry& entry : config.entries) {
    if (entry.section == "run") lines.push_back({entry.key, entry.values});
  }
  for (std::string& line : apply_config(lines, path, settings)) warnings.push_back(std::move(line));
}

std::vector<std::string> config_files() {
  const std::string own = find_program("reveal-run");
  const std::size_t slash = own.rfind('/');
  std::vector<std::string> files{"/etc/reveal/reveal.conf"};
  if (slash != std::string::npos) files.push_back(own.substr(0, slash) + "/../etc/reveal/reveal.conf");
  // After `sudo -E` the home directory is somebody else's, who would say where root writes.
  if (::geteuid() == 0) return files;
  const std::string config = process_environment("XDG_CONFIG_HOME");
  const std::string home = process_environment("HOME");
  if (!config.empty() || !home.empty()) {
    files.push_back((config.empty() ? home + "/.config" : config) + "/reveal/reveal.conf");
  }
  return files;
}

std::string unknown_option(const std::string& option) {
  std::vector<std::string> known{"--help", "--version"};
  for (const SettingSpec& spec : setting_specs()) known.emplace_back(spec.option);
  const std::string name = option.substr(0, option.find('='));
  const auto meant = nearest(name, known);
  return "unknown option \"" + name + "\"" + (meant ? "; did you mean \"" + *meant + "\"?" : "; see --help");
}

}  // namespace

int main(int argc, char** argv) try {
  guard_standard_streams();
  CLI::App app{"Runs a command unchanged and tells afterwards what slowed it down."};
  app.name("reveal-run");
  app.formatter(std::make_shared<Help>());
  app.footer(kExamples);
  app.set_version_flag("--version", REVEAL_VERSION);
  app.prefix_command();

  struct Given {
    const SettingSpec* spec;
    std::vector<std::string> values;
    bool flag = false;
  };
  std::vector<Given> given;
  for (const SettingSpec& spec : setting_specs()) given.push_back({&spec});
  for (Given& each : given) {
    if (each.spec->form == SettingForm::turns_on || each.spec->form == SettingForm::turns_off) {
      app.add_flag(each.spec->option, each.flag, each.spec->help);
    } else {
      app.add_option(each.spec->option, each.values, each.spec->help)
          ->type_name(each.spec->placeholder)
          ->expected(1)
          ->multi_option_policy(each.spec->form == SettingForm::list ? CLI::MultiOptionPolicy::TakeAll
                                                                     : CLI::MultiOptionPolicy::TakeLast);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::Error& error) {
    return usage_error(error.what());
  }

  std::vector<std::string> command = app.remaining();
  const bool separated = !command.empty() && command.front() == "--";
  if (separated) command.erase(command.begin());
  if (command.empty()) return usage_error("no command; usage: reveal-run [options] -- COMMAND...");
  if (!separated && command.front().starts_with('-')) return usage_error(unknown_option(command.front()));

  Settings settings;
  std::vector<std::string> warnings;
  for (const std::string& file : config_files()) read_config(file, settings, warnings);
  for (std::string& line : apply_environment(process_environment, settings)) warnings.push_back(std::move(line));
  for (const Given& each : given) {
    try {
      if (each.flag) each.spec->apply(settings, each.spec->form == SettingForm::turns_on ? "true" : "false");
      for (const std::string& value : each.values) each.spec->apply(settings, value);
    } catch (const Error& error) {
      return usage_error(std::string(each.spec->option) + ": " + error.what());
    }
  }
  return run_profiled(settings, command, process_environment, warnings);
} catch (const std::exception& error) {
  return usage_error(error.what());
}
