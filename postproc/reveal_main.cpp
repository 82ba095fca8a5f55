// reveal: explains what slowed a job down, from the traces its nodes left.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "hdf5schema/basics/standard_streams.h"
#include "hdf5schema/version.h"
#include "postproc/commands/command.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/commands/usage_error.h"

namespace {

using namespace reveal;

/// "--color WHEN:{auto,always,never}"; options that exclude each other are reported when used together. Behind the text
/// is the default, if the option has captured one.
class HelpFormatter final : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_type_name().empty()) return "";
    const bool several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    return " " + option->get_type_name() + (several ? " ..." : "");
  }

  [[nodiscard]] std::string make_option_desc(const CLI::Option* option) const override {
    const std::string known = option->get_default_str();
    return option->get_description() + (known.empty() ? "" : " (default " + known + ")");
  }
};

struct Declared {
  const CLI::App* part;
  std::unique_ptr<Command> command;
  int failure;  // its exit status where it comes to nothing
};

CLI::App* add_command(CLI::App& app, const CommandSpec& spec, CommonOptions& common) {
  CLI::App* part = app.add_subcommand(std::string(spec.name), std::string(spec.help));
  if (spec.caller == Caller::collector) {
    part->group("");
    return part;
  }
  add_common_options(*part, common);
  part->footer("Examples:\n" + std::string(spec.examples));
  return part;
}

/// `reveal help`, `reveal help show`: the same as `reveal --help`, `reveal show --help`.
std::vector<std::string> with_help_as_option(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.resize(std::min<std::size_t>(words.size(), 1));
  const auto named = [&](const CLI::App* part) { return part->get_name() == words.front(); };
  const bool unknown = !words.empty() && app.get_subcommands(named).empty();
  if (!unknown) words.emplace_back("--help");  // else it is an error like any unknown command
  return words;
}

int run_where_it_is_safe(Command& command, int failure, const CommonOptions& common) {
  Inputs inputs = command.inputs();
  const auto foreign = foreign_part(inputs.paths, inputs.entries);
  if (!foreign) return command.run(common);
  if (!common.config.empty()) inputs.paths.emplace_back(common.config);
  CommonOptions confined = common;
  confined.foreign = true;
  return run_confined(inputs, *foreign, failure, [&] { return command.run(confined); });
}

/// An exception becomes one line on stderr.
int guarded(int failure, const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    std::fputs("reveal: not enough memory\n", stderr);
  } catch (const std::exception& error) {
    try {
      complain(error.what());
    } catch (const std::bad_alloc&) {
      std::fputs("reveal: not enough memory\n", stderr);
    }
  }
  return failure;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Finds the causes that silently slowed a job down, from the traces that reveal-run or srun --reveal recorded."};
  app.name("reveal");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("-V,--version", std::string("reveal ") + REVEAL_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  reveal-run -- ./train.sh           profile a command; the report follows when it has ended\n"
      "  reveal show                        print the report of your newest run here\n"
      "  reveal report reveal-4711          analyse a job, write report.json, .txt and .html, print the text\n"
      "  reveal show reveal-4711 --json     print the report as JSON\n"
      "  reveal watch reveal-4711           show alerts while it runs\n"
      "  reveal doctor                      check whether reveal works on this node\n"
      "  reveal help show                   options and examples of a command\n"
      "Exit status: 0 done, 1 failed, 2 wrong usage.");

  CommonOptions common;
  add_common_options(app, common);
  std::vector<Declared> all;
  for (const CommandSpec& spec : commands()) {
    CLI::App* part = add_command(app, spec, common);
    all.push_back({part, spec.make(), spec.failure_status});
    all.back().command->declare(*part, common);
  }

  app.add_subcommand("help", "Print the description and options of a command: reveal help show");

  const std::vector<std::string> words = with_help_as_option(app, {argv + 1, argv + argc});
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them from the back
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) return usage_error(app, error, words);
    std::ostringstream help;
    const int status = app.exit(error, help, help);
    print(help.str());
    return status;
  }
  for (const Declared& one : all) {
    if (!one.part->parsed()) continue;
    return guarded(one.failure, [&] { return run_where_it_is_safe(*one.command, one.failure, common); });
  }
  print(app.help());  // only `help` is left, behind an option
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  guard_standard_streams();
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as some launchers leave it, children would leave no exit status
  return guarded(kFailure, [&] { return run(argc, argv); });
}
