#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/analysis/annotated_windows.h"
#include "postproc/analysis/trace_events.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/report/job_metrics.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/telemetry_csv.h"
#include "postproc/telemetry/telemetry_parquet.h"

namespace reveal {
namespace {

void print_piece(std::string_view text) {
  print(std::string(text));
}

class Export final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    app.get_option("--json")->group("");  // its forms are those of --format
    add_job_directory(app, directory_);
    app.add_option(
           "--format", format_,
           "csv: one line per sample, one column per channel, units in the header, all nodes in one table; parquet: "
           "the same as a binary table with a column for the node; python: one line per sample of a Python process "
           "with the place of its main thread (reveal-run --stack); perfetto: findings, "
           "training steps, collectives and channels of all nodes around the report's intervals, for ui.perfetto.dev; "
           "openmetrics: "
           "the report's verdict, findings and totals, for Prometheus; windows: one line per window of 3 s of "
           "each node with its features, the scores of the paper's detectors and the findings of that time")
        ->required()
        ->check(CLI::IsMember({"csv", "parquet", "windows", "python", "perfetto", "openmetrics"}));
    app.add_option("--node", node_, "only this node; without it, all nodes are in one table")->type_name("NAME");
    app.add_option("--metrics", metrics_, "only these metrics, with shell patterns: \"cpu.*\", \"net.rx_bytes/eth0\"")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("PATTERN");
    app.add_flag("--whole-job", whole_job_, "--format perfetto: export the whole job, not only the report's intervals");
    app.add_option("--textfile", textfile_,
                   "--format openmetrics: write this file for node_exporter's textfile collector, print nothing; use "
                   "one name for all jobs, so that each replaces the last one: a file is collected until it is removed")
        ->type_name("FILE.prom");
    app.add_flag("--schema", schema_,
                 "--format windows: print a description of each column as JSON instead of the table");
  }

  int run(const CommonOptions& common) override {
    if (common.json) throw Error("export has no --json; use --format csv");
    directory_ = directory_of_number(directory_);
    need_directory(directory_);
    if (whole_job_ && format_ != "perfetto") throw Error("--whole-job needs --format perfetto");
    if (!textfile_.empty() && format_ != "openmetrics") throw Error("--textfile needs --format openmetrics");
    if (schema_ && format_ != "windows") throw Error("--schema needs --format windows");
    if (format_ == "parquet" && prints_on_terminal()) {
      throw Error("--format parquet is binary; write it to a file: reveal export DIR --format parquet > job.parquet");
    }
    std::vector<std::string> left_out;
    if (format_ == "csv") left_out = write_csv(chosen_traces(), metrics_, print_piece);
    if (format_ == "parquet") left_out = write_parquet(chosen_traces(), metrics_, print_piece);
    if (format_ == "perfetto") {
      left_out = write_trace_events(stored_or_new_report(directory_, common), chosen_traces(),
                                    {.metrics = metrics_, .whole_job = whole_job_}, print_piece);
    }
    if (format_ == "openmetrics") write_metrics(common);
    if (format_ == "windows") left_out = write_windows(common);
    if (format_ == "python") {
      if (!metrics_.empty()) throw Error("--format python takes no --metrics");
      left_out = write_python_csv(chosen_traces(), print_piece);
    }
    for (const std::string& sentence : left_out) complain(sentence);
    return 0;
  }

  [[nodiscard]] Inputs inputs() const override {
    Inputs inputs{.paths = {directory_of_number(directory_)}, .how = Output::whole};
    if (!textfile_.empty()) inputs.outputs.emplace_back(textfile_);
    return inputs;
  }

 private:
  void write_metrics(const CommonOptions& common) const {
    if (!metrics_.empty() || !node_.empty()) throw Error("--format openmetrics takes no --metrics and no --node");
    const std::string metrics = report_as_metrics(stored_or_new_report(directory_, common));
    if (textfile_.empty()) {
      print(metrics);
    } else {
      write_output(textfile_, metrics, Output::whole);
    }
  }

  [[nodiscard]] std::vector<std::string> write_windows(const CommonOptions& common) const {
    const Report report = stored_or_new_report(directory_, common);
    AnnotatedWindows windows(report, chosen_traces(), metrics_);
    if (schema_) {
      print(windows.schema());
    } else {
      windows.write_csv(print_piece);
    }
    return windows.left_out();
  }

  /// One trace for each node, or that of --node: of two of a node the closed one.
  [[nodiscard]] std::vector<ListedTrace> chosen_traces() const {
    std::string names;
    std::map<std::string, ListedTrace> nodes;
    std::vector<UnreadFolder> unread;
    const std::vector<ListedTrace> traces = list_traces(directory_, &unread);
    for (const UnreadFolder& folder : unread) complain(directory_ + "/" + folder.name + ": " + folder.why);
    for (const ListedTrace& each : traces) {
      const auto [known, fresh] = nodes.emplace(each.node, each);
      if (!fresh && known->second.part) known->second = each;
    }
    std::vector<ListedTrace> chosen;
    for (const auto& [name, trace] : nodes) {
      if (name == node_ || node_.empty()) chosen.push_back(trace);
      names += (names.empty() ? "" : ", ") + name;
    }
    if (chosen.empty()) throw Error(directory_ + " has no trace of node \"" + node_ + "\", only of " + names);
    return chosen;
  }

  std::string directory_;
  std::string format_;
  std::string node_;
  std::string textfile_;
  std::vector<std::string> metrics_;
  bool whole_job_ = false;
  bool schema_ = false;
};

const RegisteredCommand kExportCommand{
    {.order = 45,
     .name = "export",
     .help = "Print measured values, computed ratios or results for other programs, in one of six formats",
     .examples = "  reveal export reveal-4711 --format csv > job.csv\n"
                 "  reveal export reveal-4711 --format csv --node n03 --metrics 'cpu.*,pmu.ipc'\n"
                 "  reveal export reveal-4711 --format parquet > job.parquet\n"
                 "  reveal export reveal-4711 --format windows | gzip > windows.csv.gz\n"
                 "  reveal export reveal-4711 --format windows --schema > windows.json\n"
                 "  reveal export reveal-4711 --format perfetto > job.json\n"
                 "  reveal export reveal-4711 --format openmetrics --textfile reveal-job.prom",
     .make = make_command<Export>}};

}  // namespace
}  // namespace reveal
