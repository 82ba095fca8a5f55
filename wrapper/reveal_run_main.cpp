// reveal-run: runs a command unchanged and reports afterwards what slowed it down.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/config.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/standard_streams.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "wrapper/collector.h"
#include "wrapper/in_place.h"
#include "wrapper/process.h"
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

/// A home directory may be on a server that does not answer.
std::string text_of(const std::string& path, std::vector<std::string>& warnings) {
  constexpr std::chrono::milliseconds kLimit{500};
  constexpr std::size_t kLongest = 1 << 20;
  const ChildAnswer answer = query_child([&] { return file_text(path); }, kLimit, kLongest);
  if (answer.start_error != 0) return file_text(path);
  if (!answer.complete) warnings.push_back(path + ": could not be read; its settings do not apply");
  return answer.text;
}

std::string unknown_option(const std::string& option) {
  std::vector<std::string> known{"--help", "--version"};
  for (const RunOption& each : run_options()) known.emplace_back(each.option);
  const std::string name = option.substr(0, option.find('='));
  const auto meant = nearest(name, known);
  return "unknown option \"" + name + "\"" + (meant ? "; did you mean \"" + *meant + "\"?" : "; see --help");
}

/// Where our own options end and the command begins. Needs no memory: without any, the command still has to run.
int begin_of_command(int argc, char** argv) noexcept {
  int i = 1;
  while (i < argc) {
    const std::string_view word = argv[i];
    if (!word.starts_with('-')) return i;
    if (word == "--") return i + 1;
    const auto options = run_options();
    const auto option = std::find_if(options.begin(), options.end(), [&](const RunOption& each) {
      return word.substr(0, word.find('=')) == each.option;
    });
    const bool with_value = option != options.end() && option->form == OptionForm::value;
    i += with_value && word.find('=') == std::string_view::npos ? 2 : 1;
  }
  return argc;
}

class UsageError : public Error {
 public:
  using Error::Error;
};

struct Answered {  // --help or --version
  int status;
};

/// From the files, the environment and the options, each stronger than the one before. Throws UsageError.
RunOrder read_order(int own_argc, char** argv) {
  CLI::App app{"Runs a command unchanged and reports afterwards what slowed it down."};
  app.name("reveal-run");
  app.formatter(std::make_shared<Help>());
  app.footer(kExamples);
  app.set_version_flag("--version", REVEAL_VERSION);
  app.allow_extras();

  struct Given {
    const RunOption* option;
    std::vector<std::string> values;
    bool flag = false;
  };
  std::vector<Given> given;
  for (const RunOption& option : run_options()) given.push_back({&option});
  for (Given& each : given) {
    const RunOption& option = *each.option;
    if (option.form != OptionForm::value) {
      app.add_flag(option.option, each.flag, help_of(option));
    } else {
      const bool several = option.key.form == ConfigForm::labels;
      app.add_option(option.option, each.values, help_of(option))
          ->type_name(option.placeholder)
          ->expected(1)
          ->multi_option_policy(several ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
    }
  }
  try {
    app.parse(own_argc, argv);
  } catch (const CLI::Success& success) {
    throw Answered{app.exit(success)};
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
  for (const std::string& word : app.remaining()) {
    if (word != "--") throw UsageError(unknown_option(word));
  }

  RunOrder order;
  Config config;
  for (const ConfigPlace& place : config_places(own_path(), process_environment)) {
    config.read(text_of(place.file.string(), order.warnings), place.file.string(), place.owner);
  }
  config.read_environment(process_environment, names_of_process_environment());
  for (std::string& line : config.problems_of({"run", "gpu"})) order.warnings.push_back(std::move(line));
  for (const Given& each : given) {
    const RunOption& option = *each.option;
    const std::string switched = option.form == OptionForm::turns_on ? "true" : "false";
    const bool has_names = option.key.key == "probes" || option.key.key == "stack_without";
    if (has_names && !each.values.empty()) order.names_are_typed = true;
    if (each.flag) static_cast<void>(config.set(option.key, {switched}, option.option));
    for (const std::string& value : each.values) {
      if (value.empty() && option.key.form == ConfigForm::pattern)
        throw UsageError("--output: the directory has no name");
      const std::string mistake = config.set(option.key, {value}, option.option);
      if (!mistake.empty()) throw UsageError(option.option + mistake);
    }
  }
  order.settings = settings_of(config);
  return order;
}

}  // namespace

int main(int argc, char** argv) {
  guard_standard_streams();
  const BlockedSignals signals;
  const int begin = begin_of_command(argc, argv);
  if (begin < argc) keep_command(argv + begin, signals);
  try {
    const RunOrder order = read_order(begin, argv);
    if (begin == argc) throw UsageError("no command; usage: reveal-run [options] -- COMMAND...");
    return run_profiled(order, argv + begin, process_environment, signals);
  } catch (const Answered& answered) {
    return answered.status;
  } catch (const UsageError& error) {
    return usage_error(error.what());
  } catch (const std::exception& error) {
    if (begin == argc) return usage_error(error.what());
    say_line({"running without a profile: ", error.what()});
    become_command();
  }
}
