#include <CLI/CLI.hpp>

#include "hdf5schema/basics/error.h"
#include "postproc/commands/command.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/collector_query.h"

namespace reveal {
namespace {

class Probes final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& /*common*/) override {
    app.add_option("name", name_, "explain this probe, or the probe of this metric")->type_name("NAME");
    app.add_flag("--markdown", markdown_, "print Markdown tables of all probes instead of text");
  }

  int run(const CommonOptions& common) override {
    const auto width = static_cast<std::size_t>(common.style().width);
    if (markdown_) {
      if (!name_.empty()) throw Error("--markdown prints all probes; leave out \"" + name_ + "\"");
      if (common.json) throw Error("--markdown prints no JSON; leave out --markdown");
      print(probes_as_markdown());
    } else if (!name_.empty()) {
      print(common.json ? probe_as_json(probes_as_json(), name_) : probe_as_text(probes_as_json(), name_, width));
    } else {
      print(common.json ? probes_as_json() : probes_as_text(probes_as_json(), width));
    }
    return 0;
  }

 private:
  std::string name_;
  bool markdown_ = false;
};

const RegisteredCommand kProbesCommand{
    {.order = 80,
     .name = "probes",
     .help = "List the probes of this version; with a NAME, explain one probe or metric",
     .examples = "  reveal probes\n  reveal probes cpu.iowait\n  reveal probes --json",
     .make = make_command<Probes>}};

}  // namespace
}  // namespace reveal
