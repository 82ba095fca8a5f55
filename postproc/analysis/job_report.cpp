#include "postproc/analysis/job_report.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/analysis/contradicted_findings.h"
#include "postproc/analysis/grouped_coverage.h"
#include "postproc/analysis/job_history.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/analysis/job_summaries.h"
#include "postproc/analysis/merge_part.h"
#include "postproc/analysis/merged_report.h"
#include "postproc/analysis/parallel.h"
#include "postproc/analysis/recorded_ending.h"
#include "postproc/analysis/slurm_job_record.h"
#include "postproc/analysis/straggler_threads.h"
#include "postproc/analysis/sufficiency.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/mute.h"
#include "postproc/history/feedback.h"
#include "postproc/peers/across_nodes.h"
#include "postproc/report/verdict.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/job_files.h"
#include "postproc/telemetry/node_folders.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::size_t kMostSingleCoverage = 256;  // nodes, each with an entry of its own

std::int64_t modified_ns(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::numeric_limits<std::int64_t>::min();
  return nanoseconds_of(status.st_mtim);
}

/// Shares of the run are of the command's time, where that is known.
void share_of_run(const ReportJob& job, std::vector<Finding>& findings) {
  if (job.ran_seconds.value_or(0) <= 0) return;
  for (Finding& finding : findings) {
    if (finding.impact.seconds && finding.impact.percent) {
      finding.impact.percent = 100 * *finding.impact.seconds / *job.ran_seconds;
    }
  }
}

/// Whether the directory has a report that is younger than these traces and their summaries.
bool is_younger_than(std::span<const ListedTrace> traces, const std::filesystem::path& directory) {
  const std::int64_t report = modified_ns(directory / kReportFile);
  if (report == std::numeric_limits<std::int64_t>::min()) return false;
  return std::all_of(traces.begin(), traces.end(), [report](const ListedTrace& trace) {
    return trace.mtime_ns <= report && modified_ns(trace.path.parent_path() / summary_name(trace.path)) <= report;
  });
}

std::string name_of(const std::filesystem::path& directory) {
  std::error_code error;
  return std::filesystem::canonical(directory, error).filename().string();
}

/// Traces of a large job lie in folders.
void name_folders(const std::filesystem::path& directory, std::span<const ListedTrace> traces, Report& report) {
  std::map<std::string, std::filesystem::path> folders;  // by the name of the trace
  for (const ListedTrace& trace : traces) {
    const std::filesystem::path folder = trace.path.lexically_relative(directory).parent_path();
    if (!folder.empty()) folders.emplace(trace.path.filename().string(), folder);
  }
  for (auto& [what, path] : report.files) {
    if (const auto known = folders.find(path); known != folders.end()) path = (known->second / path).string();
  }
}

/// The user's feedback about findings of such a run; empty if there is none.
struct GivenFeedback {
  std::vector<Feedback> feedback;
  std::string key;
};

GivenFeedback given_feedback(const std::optional<KeptRun>& run, const HistoryOptions& history,
                             std::vector<InputProblem>& problems) {
  if (!run || history.state.directory.empty()) return {};
  try {
    return {read_feedback(history.state.directory), run->record.key};
  } catch (const Error& error) {
    problems.push_back({"", fmt::format("your feedback on earlier findings could not be read: {}", error.what())});
    return {};
  }
}

/// The lines in the stored summary of a node.
LinesOfNode lines_in_files(std::span<const ListedTrace> traces) {
  return [traces](const NodeSummary& summary) -> std::vector<TimelineChannel> {
    const auto trace = std::find_if(traces.begin(), traces.end(), [&](const ListedTrace& one) {
      return is_fresh(summary, one, summary.config_hash);
    });
    return trace == traces.end() ? std::vector<TimelineChannel>() : stored_lines(*trace, summary);
  };
}

/// The conclusions, once all findings are there.
void conclude(const std::vector<NodeSummary>& summaries, const AnalysisSettings& settings, const GivenFeedback& said,
              const LinesOfNode& lines_again, Report& report) {
  drop_what_did_not_end_the_job(report.job, report.findings);
  report.muted = take_muted(report.findings, settings);  // before they can be causes: their effects stay
  find_causes(report.findings);
  report.findings = merge_findings(std::move(report.findings));
  apply_feedback(said.feedback, said.key, report.findings);
  name_nodes_in_remedies(report);
  describe_chains(report.findings);
  share_of_run(report.job, report.findings);
  judge(report, not_judged(summaries, report.job));
  std::vector<const NodeProfile*> profiles;
  profiles.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) profiles.push_back(&summary.profile);
  report.across =
      metrics_across(profiles, report.comparison, report.findings, {report.job.begin_utc_ns, report.job.end_utc_ns});
  draw_timelines(summaries, lines_again, report);  // channels of the primary finding first
  if (report.job.nodes.size() > kMostSingleCoverage) report.coverage = grouped_coverage(std::move(report.coverage));
}

/// The report from the summaries of a job's nodes.
Report report_of(const std::filesystem::path& directory, std::span<const ListedTrace> traces,
                 std::vector<NodeSummary> summaries, const ReportOptions& options, std::vector<InputProblem>& problems,
                 const std::vector<UnreadFolder>& unread) {
  if (summaries.empty()) throw Error(problems.front().text);
  drop_duplicates(summaries, problems);
  note_missing_nodes(summaries, options.expected_nodes, unread, problems);
  void_where_kernel_is_shared(summaries);

  const RecordedEnding ending = recorded_ending(directory, options.exit_code, options.ran_seconds);
  Report report =
      merged_parts(summaries, problems, options, ended_well(ending) ? JobOutcome::well : JobOutcome::not_known);
  name_folders(directory, traces, report);
  add_straggler_threads(traces, summaries, report.findings);
  report.directory = name_of(directory);
  report.supersedes = ending.supersedes;
  apply(ending, report.job);
  note_unrecorded_time(summaries, report);
  const auto run = compare_with_earlier(directory, summaries, options.history, options.settings, report, problems);
  conclude(summaries, options.settings, given_feedback(run, options.history, problems), lines_in_files(traces), report);
  if (run) keep_run(*run, options.history, report, problems);
  const bool many = summaries.size() > kNodesOfPart;
  std::vector<NodeSummary>().swap(summaries);
  if (many) return_freed_memory();  // the pages need some of their own
  return report;
}

}  // namespace

Report merge_summaries(const std::vector<NodeSummary>& summaries, const std::vector<InputProblem>& problems,
                       const ReportOptions& options) {
  std::vector<NodeSummary> merged = summaries;
  Report report = merged_parts(merged, problems, options);
  conclude(merged, options.settings, {}, nullptr, report);
  return report;
}

Report build_report(const std::filesystem::path& directory, const ReportOptions& options,
                    std::vector<InputProblem>& problems) {
  std::vector<UnreadFolder> unread;
  const std::vector<ListedTrace> traces = list_traces(directory, &unread);
  return report_of(directory, traces, summaries_of_job(directory, traces, options, problems), options, problems,
                   unread);
}

Report build_node_report(const std::filesystem::path& directory, const std::string& node, const ReportOptions& options,
                         std::vector<InputProblem>& problems) {
  const std::vector<ListedTrace> traces = traces_of_node(directory, node);
  if (traces.empty()) throw Error("no trace of \"" + node + "\" in " + directory.string());
  std::vector<NodeSummary> summaries = summaries_of(traces, options, problems);
  if (summaries.empty()) throw Error(problems.front().text);
  drop_duplicates(summaries, problems);
  Report report = merged_parts(summaries, problems, options);
  name_folders(directory, traces, report);
  report.directory = name_of(directory);
  if (const auto record = read_slurm_job_record(directory)) apply(*record, report.job);
  conclude(summaries, options.settings, {}, lines_in_files(traces), report);
  return report;
}

std::vector<Report> try_settings(const std::filesystem::path& directory, std::span<const AnalysisSettings> settings,
                                 const ReportOptions& options) {
  std::vector<UnreadFolder> unread;
  const std::vector<ListedTrace> traces = list_traces(directory, &unread);
  std::vector<TriedSummaries> tried = tried_summaries(traces, settings, options);
  std::vector<Report> reports;
  reports.reserve(tried.size());
  for (std::size_t k = 0; k < settings.size(); ++k) {
    ReportOptions with = options;
    with.settings = settings[k];
    reports.push_back(report_of(directory, traces, std::move(tried[k].nodes), with, tried[k].problems, unread));
  }
  return reports;
}

void write_report(const std::filesystem::path& directory, const Report& report) {
  publish_file(directory, kTextPageFile, render_text(report));
  publish_file(directory, kWebPageFile, render_html(report));
  publish_file(directory, kReportFile, render_json(report));
  remove_parts(directory);
}

bool report_is_fresh(const std::filesystem::path& directory) {
  std::vector<UnreadFolder> unread;  // the report names them
  return is_younger_than(list_traces(directory, &unread), directory);
}

bool report_is_fresh(const std::filesystem::path& directory, const std::string& node) {
  return is_younger_than(traces_of_node(directory, node), directory);
}

}  // namespace reveal
