#include "postproc/commands/command.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/collector_query.h"

namespace reveal {
namespace {

class Probes final : public Command {
 public:
  int run(const CommonOptions& common) override {
    const std::string answer = ask_collector({"--list-probes", "--json"});
    print(common.json ? answer : probes_as_text(answer));
    return 0;
  }
};

const RegisteredCommand kCommand{{.order = 80,
                                  .name = "probes",
                                  .help = "What this version can measure",
                                  .examples = "  reveal probes --json",
                                  .make = make_command<Probes>}};

}  // namespace
}  // namespace reveal
