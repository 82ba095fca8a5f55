#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"

namespace reveal {
namespace {

template <typename Item, typename Names>
void keep_node(std::vector<Item>& items, const std::string& node, Names nodes_of) {
  std::erase_if(items, [&](const Item& item) {
    const std::vector<std::string> nodes = nodes_of(item);
    return std::find(nodes.begin(), nodes.end(), node) == nodes.end();
  });
}

/// The part of the report about one node. The verdict stays the job's.
void narrow_to_node(Report& report, const std::string& node) {
  if (std::find(report.job.nodes.begin(), report.job.nodes.end(), node) == report.job.nodes.end()) {
    const auto near = nearest(node, report.job.nodes);
    throw Error("no node \"" + node + "\" in this job" + (near ? "; did you mean \"" + *near + "\"?" : ""));
  }
  const auto listed = [](const auto& item) { return item.nodes; };
  const auto single = [](const auto& item) { return std::vector<std::string>{item.node}; };
  keep_node(report.findings, node, listed);
  keep_node(report.coverage, node, listed);
  keep_node(report.episodes, node, single);
  keep_node(report.overhead, node, single);
  keep_node(report.totals, node, single);
  keep_node(report.timeline, node, single);
  report.anomalous.clear();  // it sums over all nodes
  std::erase_if(report.marks, [&](const ReportMark& mark) { return !mark.node.empty() && mark.node != node; });
}

void narrow_to_finding(Report& report, const std::string& id) {
  std::vector<std::string> known;
  for (const Finding& finding : report.findings) known.push_back(finding.id);
  std::erase_if(report.findings, [&](const Finding& finding) { return finding.id != id && finding.fingerprint != id; });
  if (!report.findings.empty()) return;
  const auto near = nearest(id, known);
  throw Error("no finding \"" + id + "\" in this report" + (near ? "; did you mean \"" + *near + "\"?" : ""));
}

class Show final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    add_optional_job_directory(app, directory_);
    app.add_flag("--all", all_,
                 "print everything, also intervals without a known cause, and gaps in measurements and checks");
    app.add_flag("--episodes", episodes_, "only the anomalous intervals, with the detectors that found them");
    app.add_option("--node", node_, "only results of this node, in full")->type_name("NODE");
    app.add_option("--finding", finding_, "only this finding, in full, by rule id or fingerprint")->type_name("ID");
  }

  int run(const CommonOptions& common) override {
    directory_ = chosen_job_directory(directory_);
    Report report = stored_or_new_report(directory_, common);
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
    print(common.json ? render_json(report) : render_text(report, style));
    return 0;
  }

  [[nodiscard]] Inputs inputs() const override { return {.paths = {job_directory(directory_)}}; }

 private:
  std::string directory_, node_, finding_;
  bool all_ = false;
  bool episodes_ = false;
};

const RegisteredCommand kShowCommand{{.order = 20,
                                      .name = "show",
                                      .help = "Print a report, building it first if it is missing or stale",
                                      .examples = "  reveal show                              your newest run here\n"
                                                  "  reveal show reveal-4711\n"
                                                  "  reveal show reveal-4711 --all\n"
                                                  "  reveal show reveal-4711 --episodes\n"
                                                  "  reveal show reveal-4711 --finding cpu.outsider",
                                      .make = make_command<Show>}};

}  // namespace
}  // namespace reveal
