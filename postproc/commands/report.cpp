#include "hdf5schema/basics/error.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/report/job_report.h"
#include "postproc/report/thin_traces.h"

namespace reveal {
namespace {

class ReportCommand final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    add_job_directory(app, request_.directory);
    app.add_option("--pipeline", request_.pipeline, "detectors: reveal (default), paper or local")
        ->type_name("NAME")
        ->check(known_pipeline);
    app.add_option("--expect", request_.expect, "nodes that must have delivered a trace")
        ->delimiter(',')
        ->type_name("NODES");
    app.add_option("--exit-code", request_.exit_code, "what the job ended with, for the report")
        ->check(CLI::Range(0, 255))
        ->type_name("N");
    app.add_flag("--no-history", request_.no_history, "do not compare with earlier runs, nor teach later ones");
    app.add_option("--threads", request_.threads, "nodes analysed side by side (default: one a cpu, at most 3)")
        ->type_name("N");
    app.add_flag("--fresh", request_.fresh, "do not reuse the nodes' summaries");
    app.add_option("--retain", retain_, "what to keep of the traces: full (default) or summary, one row a minute")
        ->type_name("FORM")
        ->check(CLI::IsMember({"full", "summary"}));
  }

  int run(const CommonOptions& common) override {
    const Report report = make_report(request_, common);
    // What was found is worth more than the files: it is printed even if the directory cannot be written.
    std::string failure;
    try {
      need_own_directory(request_.directory);
      if (retain_ == "summary") thin_traces(request_.directory);
      write_report(request_.directory, report);
    } catch (const Error& error) {
      failure = error.what();
    }
    print(common.json ? render_json(report) : render_text(report, common.style()));
    if (failure.empty()) return 0;
    complain(failure);
    return kFailure;
  }

  [[nodiscard]] Inputs inputs() const override { return {.paths = {request_.directory}}; }

 private:
  ReportRequest request_;
  std::string retain_;
};

const RegisteredCommand kCommand{{.order = 10,
                                  .name = "report",
                                  .help = "Merge, analyse, write and print the report of a job",
                                  .examples = "  reveal report reveal-4711\n"
                                              "  reveal report out --pipeline paper --json\n"
                                              "  reveal report out --expect n01,n02,n03",
                                  .make = make_command<ReportCommand>}};

}  // namespace
}  // namespace reveal
