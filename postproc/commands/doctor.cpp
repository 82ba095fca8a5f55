#include "postproc/commands/command.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/collector_query.h"

namespace reveal {
namespace {

class Doctor final : public Command {
 public:
  int run(const CommonOptions& common) override {
    const std::string answer = ask_collector({"--check", "--json"});
    print(common.json ? answer : check_as_text(answer));
    return 0;
  }
};

const RegisteredCommand kCommand{{.order = 100,
                                  .name = "doctor",
                                  .help = "What can be measured on this node, what is missing and why",
                                  .examples = "  reveal doctor",
                                  .make = make_command<Doctor>}};

}  // namespace
}  // namespace reveal
