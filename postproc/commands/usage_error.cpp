#include "postproc/commands/usage_error.h"

#include <algorithm>

#include "hdf5schema/basics/text.h"
#include "postproc/commands/command.h"
#include "postproc/commands/terminal.h"

namespace reveal {

namespace {

int usage_status_of(const CLI::App* chosen) {
  if (chosen == nullptr) return kUsage;
  const std::vector<CommandSpec> all = commands();
  const auto spec =
      std::find_if(all.begin(), all.end(), [&](const CommandSpec& one) { return one.name == chosen->get_name(); });
  return spec == all.end() ? kUsage : spec->usage_status;
}

}  // namespace

int usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const std::vector<const CLI::App*> all = app.get_subcommands({});
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const CLI::App* command : all) names.push_back(command->get_name());
  const CLI::App* chosen = nullptr;
  for (const std::string& word : arguments) {
    if (!word.starts_with("-")) {
      const auto known = std::find(names.begin(), names.end(), word);
      if (known == names.end()) {
        const auto near = nearest(word, names);
        complain("unknown command \"" + word + "\"" +
                 (near ? "; did you mean \"" + *near + "\"?" : "; see reveal --help"));
        return kUsage;
      }
      chosen = all[static_cast<std::size_t>(known - names.begin())];
      break;
    }
  }
  const std::string see_help = "see reveal " + (chosen != nullptr ? chosen->get_name() + " " : "") + "--help";
  std::vector<std::string> options;
  for (const CLI::Option* option : (chosen != nullptr ? chosen : &app)->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string word = argument.substr(0, argument.find('='));
    if (!word.starts_with("--") || std::find(options.begin(), options.end(), word) != options.end()) continue;
    const auto near = nearest(word, options);
    complain("unknown option \"" + word + "\"; " + (near ? "did you mean \"" + *near + "\"?" : see_help));
    return usage_status_of(chosen);
  }
  complain(std::string(error.what()) + "; " + see_help);
  return usage_status_of(chosen);
}

}  // namespace reveal
