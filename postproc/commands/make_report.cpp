#include "postproc/commands/make_report.h"

#include <filesystem>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/node_list.h"
#include "hdf5schema/basics/shell_word.h"
#include "postproc/analysis/job_history.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/analysis/job_report.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/detect/pipeline.h"
#include "postproc/report/node_entries.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/telemetry/publish.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

/// A report that was moved away from its traces can still be read.
bool is_fresh_or_alone(const std::string& directory) {
  try {
    return report_is_fresh(directory);
  } catch (const Error&) {
    return fs::exists(fs::path(directory) / "report.json");
  }
}

void write_if_ours(const std::string& directory, const Report& report) {
  try {
    need_own_directory(directory);
    write_report(directory, report);
  } catch (const Error& error) {
    complain(error.what());  // reading it is what was asked for
  }
}

ReportOptions usual_options(const std::string& directory, const CommonOptions& common) {
  ReportOptions options;
  options.settings = common.settings();
  options.publish = !foreign_part({directory});
  options.now_utc_ns = utc_now_ns();
  return options;
}

Report with_texts_of_rules(Report report, const CommonOptions& common) {
  if (common.foreign) take_texts_of_rules(report);
  return report;
}

Report stored_or_new(const std::string& directory, const CommonOptions& common) {
  std::optional<Error> damage;
  if (is_fresh_or_alone(directory)) {
    try {
      return parse_report(read_text_file(fs::path(directory) / "report.json", kLargestReport));
    } catch (const Error& error) {  // damaged, or of another version: made again from the traces
      damage = error;
    }
  }
  Report report;
  try {
    report = make_report({.directory = directory}, common);
  } catch (const Error&) {
    if (damage) throw Error(directory + ": " + damage->what() + ", and there is no trace to rebuild it from");
    throw;
  }
  write_if_ours(directory, report);
  return report;
}

}  // namespace

Report make_report(const ReportRequest& request, const CommonOptions& common) {
  need_directory(request.directory);
  ReportOptions options = usual_options(request.directory, common);
  if (!request.pipeline.empty()) options.settings.pipeline = find_pipeline(request.pipeline).name;
  for (const std::string& list : request.expect) {
    for (std::string& node : expand_node_list(list)) options.expected_nodes.push_back(std::move(node));
  }
  options.reuse_summaries = !request.fresh;
  options.exit_code = request.exit_code;
  options.ran_seconds = request.ran_seconds;
  options.threads = request.threads;
  if (options.publish) options.history = history_options(options.settings);
  if (!options.publish) options.history = {.why_not = "the directory belongs to another user"};
  if (request.no_history) options.history = {.why_not = "--no-history was given"};
  options.remark = complain;
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
  return with_texts_of_rules(std::move(report), common);
}

Report stored_or_new_report(const std::string& directory, const CommonOptions& common) {
  need_directory(directory);
  return with_texts_of_rules(stored_or_new(directory, common), common);
}

bool has_report_about(const std::string& directory, const std::string& node) {
  return report_is_fresh(directory, node);
}

Report stored_report_about(const std::string& directory, const std::string& node, const CommonOptions& common) {
  return with_texts_of_rules(parse_report(read_report_about(fs::path(directory) / kReportFile, node)), common);
}

Report new_report_about(const std::string& directory, const std::string& node, const CommonOptions& common) {
  need_directory(directory);
  if (!has_more_traces_than(directory, kNodesOfPart)) return stored_or_new_report(directory, common);
  const ReportOptions options = usual_options(directory, common);
  std::vector<InputProblem> problems;
  Report report = build_node_report(directory, node, options, problems);
  for (const InputProblem& problem : problems) complain(problem.text);
  complain("the job has no report, or an older one: these are the results of " + printable(node) +
           " without the other nodes; to compare them: reveal report " + shell_word(typed(directory)));
  return with_texts_of_rules(std::move(report), common);
}

}  // namespace reveal
