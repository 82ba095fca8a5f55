#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/rule_table.h"

namespace reveal {
namespace {

class Rules final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override { add_config_option(app, common); }

  int run(const CommonOptions& common) override {
    const AnalysisSettings settings = common.settings();
    print(common.json ? rules_as_json(settings) : rules_as_text(settings));
    return 0;
  }
};

const RegisteredCommand kCommand{{.order = 90,
                                  .name = "rules",
                                  .help = "Which rules exist, with thresholds, proof and sources",
                                  .examples = "  reveal rules\n  reveal rules --json",
                                  .make = make_command<Rules>}};

}  // namespace
}  // namespace reveal
