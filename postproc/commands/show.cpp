#include "hdf5schema/basics/error.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/report/narrowed.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {
namespace {

class Show final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    add_optional_job_directory(app, directory_);
    app.add_flag(
        "--all", all_,
        "print everything, also intervals without a known cause, and gaps in measurements and checks; --json always "
        "does");
    CLI::Option* episodes =
        app.add_flag("--episodes", episodes_, "only the anomalous intervals, with the detectors that found them");
    app.add_option(
           "--node", node_,
           "only results of this node, in full; files of other nodes are not read, unless the job is small and has no "
           "report")
        ->type_name("NODE")
        ->check([](const std::string& name) {
          return name.find('/') == std::string::npos ? std::string() : "\"" + name + "\" is no name of a node";
        });
    app.add_option("--finding", finding_, "only this finding, in full, by rule id or fingerprint")
        ->type_name("ID")
        ->excludes(episodes);
  }

  int run(const CommonOptions& common) override {
    if (directory_.empty()) complain("no directory was given: this is the newest here, " + chosen_.directory);
    directory_ = chosen_.directory;
    Report report = node_.empty() ? stored_or_new_report(directory_, common) : report_about_node(common);
    if (!node_.empty()) narrow_to_node(report, node_);
    if (!finding_.empty()) narrow_to_finding(report, finding_);
    TextStyle style = common.style();
    style.directory = typed(directory_);
    if (episodes_) {
      style.part = TextPart::episodes;
    } else if (!finding_.empty()) {
      style.part = TextPart::findings;
    } else if (all_ || !node_.empty()) {
      style.part = TextPart::everything;
    }
    if (common.json && episodes_) complain("--json prints the whole report; its intervals are under \"episodes\"");
    print(common.json ? render_json(report) : render_text(report, style));
    return 0;
  }

  [[nodiscard]] Inputs inputs() const override {
    chosen_.directory = job_directory(directory_);
    chosen_.report_alone = !node_.empty() && has_report_about(chosen_.directory, node_);
    const std::filesystem::path directory = chosen_.directory;
    if (chosen_.report_alone) return {.paths = {directory, directory / kReportFile}, .entries = false};
    return {.paths = {directory}};
  }

 private:
  [[nodiscard]] Report report_about_node(const CommonOptions& common) const {
    try {
      if (chosen_.report_alone) return stored_report_about(directory_, node_, common);
    } catch (const Error&) {  // damaged, or of another version: made again, where this process may read all of it
      if (foreign_part({directory_})) throw;
    }
    return new_report_about(directory_, node_, common);
  }

  /// Decided once, by inputs(): the directory may change, and what was not checked must not be read.
  struct Chosen {
    std::string directory;
    bool report_alone = false;  // nothing else is read
  };
  mutable Chosen chosen_;
  std::string directory_, node_, finding_;
  bool all_ = false;
  bool episodes_ = false;
};

const RegisteredCommand kShowCommand{
    {.order = 20,
     .name = "show",
     .help = "Print the report of a run, by default of your newest; build it first if it is missing or stale",
     .examples = "  reveal show                              your newest run here\n"
                 "  reveal show reveal-4711\n"
                 "  reveal show reveal-4711 --all\n"
                 "  reveal show reveal-4711 --episodes\n"
                 "  reveal show reveal-4711 --node n03\n"
                 "  reveal show reveal-4711 --finding cpu.outsider",
     .make = make_command<Show>}};

}  // namespace
}  // namespace reveal
