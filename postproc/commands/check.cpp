#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/scratch_directory.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/collector_query.h"
#include "postproc/diagnose/node_check.h"
#include "postproc/peers/job_rule.h"
#include "postproc/report/node_check_page.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/load.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

/// The status of two nodes; what is not known hides no warning.
NodeStatus worse_of(NodeStatus one, NodeStatus other) {
  if (one == NodeStatus::unknown) return other == NodeStatus::ok ? one : other;
  if (other == NodeStatus::unknown) return one == NodeStatus::ok ? other : one;
  return std::max(one, other);
}

class Check final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    CLI::Option* target =
        app.add_option("dir", target_, "check the recorded nodes of a job instead of this node")->type_name("DIR");
    app.add_flag("--all", all_, "also print the remedies, the checks that were done, and those that were not possible");
    app.add_option("--textfile", textfile_, "write the results for node_exporter's textfile collector")
        ->type_name("FILE.prom")
        ->excludes(target);
    app.add_option("--seconds", seconds_, "duration of the recording (default 2)")
        ->type_name("N")
        ->check(finite() & CLI::Range(1.0, 20.0))
        ->excludes(target);
    app.add_option("--root", root_, "check a copied tree or a recording of reveal-collect instead of this node")
        ->type_name("DIR")
        ->excludes(target);
  }

  int run(const CommonOptions& common) override {
    try {
      const AnalysisSettings settings = common.settings();
      return static_cast<int>(target_.empty() ? look(recorded(), settings, common) : check_job(settings, common));
    } catch (const std::exception& error) {
      write_beside(textfile_, unknown_as_metrics(utc_now_ns()));
      print(common.json ? unknown_as_json(error.what()) : unknown_line(error.what()) + "\n");
      return static_cast<int>(NodeStatus::unknown);
    }
  }

  [[nodiscard]] Inputs inputs() const override {
    Inputs inputs;
    if (!target_.empty()) inputs.paths.emplace_back(job_directory(target_));
    return inputs;
  }

 private:
  [[nodiscard]] NodeTrace recorded() const {
    if (const auto foreign = foreign_part({root_}); foreign && root_ != "/") {
      throw Error(root_ + " belongs to " + foreign->owner + ": its links may lead to other files; copy it first");
    }
    constexpr double kMillisecond = 1e-3;
    const ScratchDirectory place("check", ScratchDirectory::Place::with_room);  // a full /tmp is a finding
    const fs::path trace = place.path() / "node.h5";
    record_node({.trace = trace,
                 .root = root_,
                 .duration = std::chrono::milliseconds(static_cast<std::int64_t>(seconds_ / kMillisecond))});
    return load_trace(trace);
  }

  /// A line for each node, and one for settings in which they differ; the worst of them decides, and one that could not
  /// be looked at where all others are well.
  NodeStatus check_job(const AnalysisSettings& settings, const CommonOptions& common) const {
    NodeStatus worst = NodeStatus::ok;
    std::string separator = "[";
    std::vector<NodeProfile> profiles;
    const std::vector<ListedTrace> traces = list_traces(job_directory(target_));
    profiles.reserve(traces.size());
    for (const ListedTrace& listed : traces) {
      NodeStatus status = NodeStatus::unknown;
      std::string node = listed.node;
      std::string text;
      try {
        const NodeTrace trace = load_trace(listed.path);
        const NodeCheck check = checked(trace, settings);
        profiles.push_back(profile_of(trace.telemetry, compared_facts(trace)));
        text = in_words(check, common);
        if (!check.node.empty()) node = check.node;
        status = status_of(check);
      } catch (const std::exception& error) {  // also too little memory: the list of the nodes is printed to its end
        text = common.json ? unknown_as_json(error.what()) : unknown_line(error.what()) + "\n";
      }
      print((common.json ? std::exchange(separator, ",") : printable(node) + ": ") + text);
      worst = worse_of(worst, status);
    }
    worst = worse_of(worst, check_nodes_against_each_other(profiles, settings, common));
    if (common.json) print("]\n");
    return worst;
  }

  /// Compares the nodes of the job; two nodes alone do not show which of them is abnormal.
  NodeStatus check_nodes_against_each_other(const std::vector<NodeProfile>& profiles, const AnalysisSettings& settings,
                                            const CommonOptions& common) const {
    constexpr std::size_t kLeastNodes = 3;
    if (profiles.size() < kLeastNodes) return NodeStatus::ok;
    std::vector<const NodeProfile*> nodes;
    nodes.reserve(profiles.size());
    for (const NodeProfile& profile : profiles) nodes.push_back(&profile);
    const NodeCheck check = check_settings(nodes, settings);
    print((common.json ? "," : check.node + ": ") + in_words(check, common));
    return check.asked.empty() ? NodeStatus::ok : status_of(check);
  }

  NodeStatus look(const NodeTrace& trace, const AnalysisSettings& settings, const CommonOptions& common) const {
    const NodeCheck check = checked(trace, settings);
    write_beside(textfile_, check_as_metrics(check));
    print(in_words(check, common));
    return status_of(check);
  }

  static NodeCheck checked(const NodeTrace& trace, const AnalysisSettings& settings) {
    const Detection detection;
    return check_node({.telemetry = trace.telemetry,
                       .detection = detection,
                       .begin = trace.begin,
                       .end = trace.end,
                       .events = trace.events,
                       .utc_minus_monotonic_ns = trace.utc_minus_monotonic_ns},
                      settings);
  }

  [[nodiscard]] std::string in_words(const NodeCheck& check, const CommonOptions& common) const {
    if (common.json) return check_as_json(check);
    return all_ ? check_as_text(check, static_cast<std::size_t>(common.style().width)) : check_line(check) + "\n";
  }

  std::string target_, textfile_, root_ = "/";
  double seconds_ = 2;
  bool all_ = false;
};

const RegisteredCommand kCheckCommand{
    {.order = 99,
     .name = "check",
     .help = "Check this node's configuration and hardware; one line for monitoring systems",
     .examples = "  reveal check\n  reveal check --all\n  reveal check --json\n  reveal check reveal-4711\n"
                 "  reveal check --textfile reveal.prom      also for Prometheus\n"
                 "A notice of a report is a warning here, because it may cost the next job time.\n"
                 "Exit status: 0 OK, 1 warning, 2 critical, 3 unknown.",
     .usage_status = static_cast<int>(NodeStatus::unknown),
     .failure_status = static_cast<int>(NodeStatus::unknown),
     .make = make_command<Check>}};

}  // namespace
}  // namespace reveal
