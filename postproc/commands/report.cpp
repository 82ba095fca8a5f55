#include "hdf5schema/basics/error.h"
#include "postproc/analysis/downsample_traces.h"
#include "postproc/analysis/job_report.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"

namespace reveal {
namespace {

class ReportCommand final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    add_job_directory(app, request_.directory);
    app.add_option("--pipeline", request_.pipeline, "detectors: reveal (default) or paper")
        ->type_name("NAME")
        ->check(known_pipeline);
    app.add_option("--expect", request_.expect, "nodes that must have delivered a trace: n01,n02 or n[01-03],login")
        ->type_name("NODES");
    app.add_option("--exit-code", request_.exit_code, "exit status of the job, for the report")
        ->check(CLI::Range(0, 255))
        ->type_name("N");
    app.add_option("--ran", request_.ran_seconds, "run time of the job, for the report")
        ->check(finite() & CLI::NonNegativeNumber)
        ->type_name("SECONDS");
    app.add_flag(
        "--brief", brief_,
        "print at most six lines: the result, its cost, how sure the cause is, the next step, the place of the report");
    app.add_flag("--no-history", request_.no_history,
                 "do not compare with earlier runs, and do not keep this one as a baseline");
    app.add_option("--threads", request_.threads,
                   "nodes analysed in parallel, as memory allows (default: one per cpu, at most 3)")
        ->type_name("N");
    app.add_flag("--fresh", request_.fresh, "do not reuse the summaries of the nodes");
    app.add_option("--retain", retain_, "form in which traces are kept: full (default) or summary (one row per minute)")
        ->type_name("FORM")
        ->check(CLI::IsMember({"full", "summary"}));
  }

  int run(const CommonOptions& common) override {
    request_.directory = job_directory(request_.directory);
    const Report report = make_report(request_, common);
    std::vector<std::string> failures;
    // The findings matter more than the files: they are printed even if the directory cannot be written.
    try {
      need_own_directory(request_.directory);
      if (retain_ == "summary") failures = downsample_traces(request_.directory);
      write_report(request_.directory, report);
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
    TextStyle style = common.style();
    style.directory = typed(request_.directory);
    print(common.json ? render_json(report) : brief_ ? render_brief(report, style) : render_text(report, style));
    for (const std::string& failure : failures) complain(failure);
    return failures.empty() ? 0 : kFailure;
  }

  [[nodiscard]] Inputs inputs() const override { return {.paths = {job_directory(request_.directory)}}; }

 private:
  ReportRequest request_;
  std::string retain_;
  bool brief_ = false;
};

const RegisteredCommand kReportCommand{
    {.order = 10,
     .name = "report",
     .help = "Analyse the traces of a job: write report.txt, .html and .json, and print the text",
     .examples = "  reveal report reveal-4711\n"
                 "  reveal report out --pipeline paper --json\n"
                 "  reveal report out --expect n[01-03]",
     .make = make_command<ReportCommand>}};

}  // namespace
}  // namespace reveal
