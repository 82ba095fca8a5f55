#include <spdlog/fmt/fmt.h>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/json/json_fields.h"

namespace reveal {
namespace {

constexpr std::size_t kPlaceColumn = 40;

Json json_value(const ConfigKey& key, const Config& config) {
  switch (key.form) {
    case ConfigForm::truth:
      return config.truth(key);
    case ConfigForm::whole:
      return config.whole(key);
    case ConfigForm::number:
      return config.number(key);
    case ConfigForm::list:
    case ConfigForm::labels:
    case ConfigForm::command:
      return config.list(key);
    default:
      return config.text(key);
  }
}

std::string place_of(const ConfigKey& key, const Config& config) {
  const std::string place = config.place(key);
  return place.empty() ? "default" : place;
}

class ShowConfig final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    CLI::Option* key = app.add_option("key", key_, "print the value of this key only")->type_name("SECTION.KEY");
    app.add_flag("--template", template_, "print a reveal.conf with every key, its help and its default")
        ->excludes(key);
    app.add_flag("--all", all_, "every threshold of every rule, also the unchanged ones");
  }

  int run(const CommonOptions& common) override {
    if (template_) {
      if (common.json) throw Error("--template prints no JSON; leave out --template");
      print(config_template());
      return 0;
    }
    Config config = common.configuration();
    config.read_environment(process_environment, names_of_process_environment());
    for (const ConfigKey* key : keys()) {
      if (key_.empty() && !all_ && config_family(key->section) != key->section && config.place(*key).empty()) continue;
      shown_.push_back(key);
    }
    print(common.json ? as_json(config) : key_.empty() ? as_text(config) : value(config));
    for (const std::string& problem : problems(config)) complain(problem);
    return 0;
  }

 private:
  /// All of them, or the one that was asked for.
  [[nodiscard]] std::vector<const ConfigKey*> keys() const {
    return key_.empty() ? all_config_keys() : std::vector<const ConfigKey*>{&find_config_key(key_)};
  }

  [[nodiscard]] std::vector<std::string> problems(const Config& config) const {
    if (!key_.empty()) return config.problems_of({config_family(shown_.front()->section)});
    std::vector<std::string> texts;
    for (const ConfigProblem& problem : config.problems()) texts.push_back(problem.text);
    return texts;
  }

  /// For scripts: the members of a list are a line each.
  [[nodiscard]] std::string value(const Config& config) const {
    const ConfigKey& key = *shown_.front();
    if (key.form != ConfigForm::list && key.form != ConfigForm::labels) {
      return (key.form == ConfigForm::command ? fmt::format("{}", fmt::join(config.list(key), " "))
                                              : config.text(key)) +
             "\n";
    }
    std::string lines;
    for (const std::string& member : config.list(key)) lines += member + "\n";
    return lines;
  }

  /// Can be read as a reveal.conf.
  [[nodiscard]] std::string as_text(const Config& config) const {
    std::string text;
    std::string_view section;
    for (const ConfigKey* key : shown_) {
      if (key->section != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", key->section);
      section = key->section;
      const std::string line = fmt::format("{} = {}", key->key, written(*key, config.list(*key)));
      text += fmt::format("{:<{}} # {}\n", line, kPlaceColumn, place_of(*key, config));
    }
    return text;
  }

  [[nodiscard]] std::string as_json(const Config& config) const {
    Json rows = Json::array();
    for (const ConfigKey* key : shown_) {
      rows.push_back({{"section", key->section},
                      {"key", key->key},
                      {"value", json_value(*key, config)},
                      {"from", place_of(*key, config)}});
    }
    const Json json{{"schema", "reveal.config/1"}, {"keys", std::move(rows)}, {"problems", problems(config)}};
    return json_text(json, 2) + "\n";
  }

  std::vector<const ConfigKey*> shown_;
  std::string key_;
  bool template_ = false;
  bool all_ = false;
};

const RegisteredCommand kConfigCommand{
    {.order = 95,
     .name = "config",
     .help = "Print the current settings, and where each one is set",
     .examples = "  reveal config\n  reveal config run.interval\n  reveal config --template > reveal.conf\n"
                 "`reveal config` reads the site's file, your own and REVEAL_*; as root it reads only the site's file, "
                 "and with\n"
                 "--config only that file. Jobs under Slurm read the file that config= in plugstack.conf names.",
     .make = make_command<ShowConfig>}};

}  // namespace
}  // namespace reveal
