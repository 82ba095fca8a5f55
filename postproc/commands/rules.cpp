#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/rule_table.h"

namespace reveal {
namespace {

class Rules final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    app.add_option("id", id_, "explain this rule (cpu.outsider), or list this family of rules (cpu)")->type_name("ID");
  }

  int run(const CommonOptions& common) override {
    const AnalysisSettings settings = common.settings();
    const auto width = static_cast<std::size_t>(common.style().width);
    const std::vector<std::string> families = rule_families();
    if (id_.empty() || std::find(families.begin(), families.end(), id_) != families.end()) {
      print(common.json ? rules_as_json(settings, id_) : rules_as_text(settings, width, id_));
    } else {
      const RuleSpec& rule = named();
      print(common.json ? rule_as_json(rule, settings) : rule_as_text(rule, settings, width));
    }
    return 0;
  }

 private:
  [[nodiscard]] const RuleSpec& named() const {
    if (const RuleSpec* rule = find_rule(id_); rule != nullptr) return *rule;
    std::vector<std::string> known = rule_families();
    for (const RuleSpec* rule : rules()) known.emplace_back(rule->id);
    const auto near = nearest(id_, known);
    throw Error("no rule \"" + id_ + "\"; " + (near ? "did you mean \"" + *near + "\"?" : "see reveal rules"));
  }

  std::string id_;
};

const RegisteredCommand kRulesCommand{
    {.order = 90,
     .name = "rules",
     .help = "List the rules; with an ID, explain its signal and its remedy",
     .examples = "  reveal rules\n  reveal rules net\n  reveal rules cpu.outsider\n  reveal rules --json",
     .make = make_command<Rules>}};

}  // namespace
}  // namespace reveal
