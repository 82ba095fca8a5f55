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
      print(ask_collector({"--list-probes", "--markdown"}));
      return 0;
    }
    const std::string answer = ask_collector({"--list-probes", "--json"});
    print(common.json ? answer : probes_as_text(answer));
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
