#include "postproc/analysis/job_history.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/history/history_words.h"
#include "postproc/history/pair_history.h"
#include "postproc/history/run_identity.h"
#include "postproc/report/job_ending.h"
#include "postproc/telemetry/publish.h"
#include "postproc/telemetry/snapshot_facts.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

std::string ranks_of(const std::vector<NodeSummary>& summaries) {
  for (const NodeSummary& summary : summaries) {
    if (const auto tasks = fact_in(summary.profile.facts, "env.SLURM_NTASKS")) return std::string(*tasks);
  }
  return "";
}

std::string tag_of(const ReportJob& job, std::string_view key) {
  for (const auto& [name, value] : job.tags) {
    if (name == key) return value;
  }
  return "";
}

/// Runs of other users are no baseline for this user's, and their files could hold anything.
bool is_own(const fs::path& directory) {
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  return folder.get() >= 0 && ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
}

constexpr const char* kGoesOn = "it was queued again and may have gone on from a checkpoint";

bool may_go_on(const ReportJob& job) {
  return job.restart.value_or(0) > 0;
}

/// A baseline is made of normal runs only; one that differs from its past is none: a slow level today must not be
/// normal tomorrow.
std::string why_not_normal(const Report& report) {
  if (report.partial) return "part of its data is missing";
  if (has_failed(report.job)) return "it failed";
  if (may_go_on(report.job)) return kGoesOn;
  if (report.verdict.status == VerdictStatus::insufficient_data) return "too little of it was recorded";
  for (const Finding& finding : report.findings) {
    const bool reported = finding.severity >= Severity::warning ||
                          (finding.kind != FindingKind::anomaly && finding.severity >= Severity::notice);
    if (reported) return std::string(kHadFinding) + finding.id;
  }
  return "";
}

RunRecord record_of(const std::vector<NodeSummary>& summaries, const Report& report, const RunIdentity& identity) {
  RunRecord record;
  const ReportJob& job = report.job;
  record.name = job.name.empty() ? job.command : job.name;
  record.command = job.command;
  record.job = job.id;
  record.array = job.array;
  record.het = job.het;
  record.state = job.state;
  record.exit_code = job.exit_code;
  record.nodes = job.nodes.size();
  record.ranks = ranks_of(summaries);
  // A user who changes the work of a run on purpose can mark this: --tag baseline=2 begins a history of its own.
  record.key = text_hash(fmt::format("2\n{}\n{}\n{}\n{}{}", identity.text, record.nodes, record.ranks,
                                     tag_of(job, "baseline"), job.cluster.empty() ? "" : "\n" + job.cluster));
  // Steps that a batch script starts beside each other may begin on one tick.
  record.run_id = text_hash(fmt::format("{}\n{}\n{}\n{}{}", job.cluster, job.id, job.restart.value_or(0),
                                        job.begin_utc_ns, job.trace_ids.empty() ? "" : "\n" + job.trace_ids.front()));
  record.begin_utc_ns = job.begin_utc_ns;
  record.seconds = seconds_of(job);
  // The nodes that do the job's main work; a driver's numbers would only blur theirs.
  std::vector<const NodeProfile*> main;
  for (const NodeSummary& summary : summaries) {
    const auto& groups = report.comparison.groups;
    const bool other =
        !groups.empty() && !std::binary_search(groups.front().nodes.begin(), groups.front().nodes.end(), summary.node);
    if (!other) main.push_back(&summary.profile);
  }
  summarise_nodes(main, record);
  return record;
}

void keep(const fs::path& directory, const RunRecord& record, std::vector<InputProblem>& problems) {
  try {
    publish_file(directory, kRunRecordFile, render_run(record));
  } catch (const Error& error) {
    problems.push_back({"", fmt::format("this run cannot be a baseline for later ones: {}", error.what())});
  }
}

/// Why the run need not have been faster to be shorter, or "".
std::string why_part_of_a_run(const Report& report) {
  if (has_failed(report.job)) return "it failed";
  if (report.partial && !report.job.ran_seconds) return "its recording is incomplete";
  return may_go_on(report.job) ? kGoesOn : "";
}

/// True if the run time is left out: then the means of the channels are those of a part of a run, too.
bool leave_out_time_of_part(const Report& report, HistoryComparison& history) {
  const std::string part = why_part_of_a_run(report);
  const auto is_time = [](const HistoryChange& change) { return change.what == HistoryChange::What::run_time; };
  const bool longer = std::any_of(history.changes.begin(), history.changes.end(),
                                  [&](const HistoryChange& change) { return is_time(change) && change.percent > 0; });
  if (history.status != HistoryStatus::compared || longer || part.empty()) return false;
  std::erase_if(history.changes, is_time);
  history.sentence = sentence_of(history) + fmt::format("; its run time is not compared, because {}", part);
  return true;
}

std::optional<KeptRun> never(HistoryComparison& history, std::string why) {
  history = {};
  history.reason = std::move(why);
  return std::nullopt;
}

}  // namespace

HistoryOptions history_options(const AnalysisSettings& settings) {
  HistoryOptions options;
  options.state = state_place();
  if (!settings.history) {
    options.why_not = "[report] history is off";
  } else if (options.state.directory.empty()) {
    options.why_not = options.state.why_not;
  } else {
    options.enabled = true;
    options.why_not.clear();
  }
  return options;
}

std::optional<KeptRun> compare_with_earlier(const fs::path& directory, const std::vector<NodeSummary>& summaries,
                                            const HistoryOptions& options, const AnalysisSettings& settings,
                                            Report& report, std::vector<InputProblem>& problems) {
  if (!options.enabled) return never(report.history, options.why_not);
  if (report.job.begin_utc_ns == 0) return never(report.history, "the start time of this run is not known");
  if (!is_own(directory)) return never(report.history, "the job's directory belongs to another user");
  const RunIdentity identity = identity_of(report.job.run_key, report.job.name, report.job.command);
  if (identity.text.empty()) return never(report.history, identity.why_not);
  std::error_code error;
  const fs::path place = fs::absolute(directory, error).lexically_normal();
  KeptRun run{.place = place.has_filename() ? place : place.parent_path(),
              .record = record_of(summaries, report, identity),
              .without_index = {}};

  std::vector<RunRecord> earlier;
  std::size_t indexed = 0;  // runs, also those of other tasks of the array
  try {
    RunIndex index(options.state.directory);
    if (index.rebuilt()) {
      problems.push_back({"", fmt::format("{}: the index of earlier runs was damaged and has been rebuilt",
                                          options.state.directory.string())});
    }
    const std::string task = task_in_array(run.record.array);
    earlier = index.runs(run.record.key, task);
    indexed = earlier.size() < kLeastRuns && !task.empty() ? index.runs(run.record.key).size() : earlier.size();
  } catch (const Error& failure) {
    run.without_index = failure.what();
  }
  // Runs that are not in the index yet: from before it was there, or copied from elsewhere.
  if (indexed < kLeastRuns) {
    for (auto& [beside, known] : records_in(run.place.parent_path())) earlier.push_back(std::move(known));
  }
  report.history = compare_runs(run.record, earlier, settings);
  const bool part = leave_out_time_of_part(report, report.history);
  name_unusual_nodes(run.record, earlier, report.findings);
  if (!run.without_index.empty()) {
    std::string& said =
        report.history.status == HistoryStatus::never_compared ? report.history.reason : report.history.sentence;
    said += fmt::format(" (only the runs in the same directory are known: {})", run.without_index);
  }
  if (part) return run;
  for (Finding& finding :
       history_findings(report.history, report.job.nodes, {report.job.begin_utc_ns, report.job.end_utc_ns}, settings)) {
    finding.remedy = remedy_for(*find_rule(finding.id), job_values(finding, remedy_names(report.job)));
    report.findings.push_back(std::move(finding));
  }
  return run;
}

void keep_run(KeptRun run, const HistoryOptions& options, Report& report, std::vector<InputProblem>& problems) {
  RunRecord& record = run.record;
  record.verdict = name_of(report.verdict.status);
  for (const Finding& finding : report.findings) {
    if (finding.severity >= Severity::notice) record.findings.push_back(finding.id);  // not observations
  }
  record.why_not = report.history.why_not = why_not_normal(report);
  record.accepted = report.history.enters_baseline = record.why_not.empty();
  keep(run.place, record, problems);
  try {
    RunIndex(options.state.directory).put(run.place, record);
  } catch (const Error& failure) {
    if (!run.without_index.empty()) return;  // the line about earlier runs has the reason; it may only have been busy
    problems.push_back({"", fmt::format("the index of earlier runs was not updated: {}", failure.what())});
  }
}

}  // namespace reveal
