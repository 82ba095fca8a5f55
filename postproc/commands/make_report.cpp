#include "postproc/commands/make_report.h"

#include "hdf5schema/basics/clocks.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/analysis/job_report.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/detect/pipeline.h"

namespace reveal {

Report make_report(const ReportRequest& request, const CommonOptions& common) {
  need_directory(request.directory);
  ReportOptions options;
  options.settings = common.settings();
  if (!request.pipeline.empty()) options.settings.pipeline = find_pipeline(request.pipeline).name;
  options.expected_nodes = request.expect;
  options.reuse_summaries = !request.fresh;
  options.exit_code = request.exit_code;
  options.ran_seconds = request.ran_seconds;
  options.threads = request.threads;
  options.publish = !foreign_part({request.directory});
  if (options.publish) options.history = history_options(options.settings);
  if (!options.publish) options.history = {.why_not = "the directory belongs to somebody else"};
  if (request.no_history) options.history = {.why_not = "--no-history was given"};
  options.now_utc_ns = utc_now_ns();
  std::vector<InputProblem> problems;
  Report report;
  {
    Progress progress;
    options.progress = [&progress](const std::string& node, std::size_t index, std::size_t count) {
      progress.say("analysing " + node + ", " + std::to_string(index + 1) + " of " + std::to_string(count));
    };
    report = build_report(request.directory, options, problems);
  }
  for (const InputProblem& problem : problems) complain(problem.text);
  if (common.foreign) take_texts_of_rules(report);
  return report;
}

}  // namespace reveal
