#include <CLI/CLI.hpp>

#include "postproc/commands/command.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/collector_query.h"

namespace reveal {
namespace {

class Probes final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& /*common*/) override {
    app.add_flag("--markdown", markdown_, "print Markdown tables instead of text");
  }

  int run(const CommonOptions& common) override {
    if (markdown_) {
      print(probes_as_markdown());
    } else {
      print(common.json ? probes_as_json() : probes_as_text(probes_as_json()));
    }
    return 0;
  }

 private:
  bool markdown_ = false;
};

const RegisteredCommand kCommand{{.order = 80,
                                  .name = "probes",
                                  .help = "What this version can measure",
                                  .examples = "  reveal probes --json",
                                  .make = make_command<Probes>}};

}  // namespace
}  // namespace reveal
