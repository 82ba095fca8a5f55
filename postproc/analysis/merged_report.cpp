#include "postproc/analysis/merged_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hdf5schema/version.h"
#include "postproc/analysis/contradicted_findings.h"
#include "postproc/analysis/job_phases.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/analysis/job_totals.h"
#include "postproc/analysis/lost_segments.h"
#include "postproc/analysis/node_addresses.h"
#include "postproc/analysis/node_marks.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/node_ranks.h"
#include "postproc/report/anomalous_time.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/job_files.h"

namespace reveal {
namespace {

constexpr std::size_t kMostEpisodes = 60;
constexpr std::size_t kMostMaps = 32;

void merge_job(const std::vector<NodeSummary>& summaries, ReportJob& job) {
  if (!summaries.empty()) job = summaries.front().part.job;
  job.oom_kills.reset();
  job.trace_ids.clear();
  job.nodes.clear();
  job.nodes.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) {
    const ReportJob& theirs = summary.part.job;
    job.begin_utc_ns = std::min(job.begin_utc_ns, theirs.begin_utc_ns);
    job.end_utc_ns = std::max(job.end_utc_ns, theirs.end_utc_ns);
    if (theirs.oom_kills) job.oom_kills = job.oom_kills.value_or(0) + *theirs.oom_kills;
    job.trace_ids.insert(job.trace_ids.end(), theirs.trace_ids.begin(), theirs.trace_ids.end());
    job.nodes.push_back(summary.node);
  }
  std::sort(job.nodes.begin(), job.nodes.end());
  std::sort(job.trace_ids.begin(), job.trace_ids.end());
  job.trace_ids.erase(std::unique(job.trace_ids.begin(), job.trace_ids.end()), job.trace_ids.end());
  if (job.trace_ids.size() > kMostTraceIds) job.trace_ids.resize(kMostTraceIds);
}

/// A rule that could be checked on one node counts as checked; the reason of the others still gets a line.
std::vector<NotChecked> merge_not_checked(const std::vector<NodeSummary>& summaries) {
  std::map<std::pair<std::string, std::string>, std::size_t> nodes;
  std::map<std::string, std::set<std::string>> unchecked_on;
  for (const NodeSummary& summary : summaries) {
    for (const NotChecked& unchecked : summary.part.not_checked) {
      ++nodes[{unchecked.rule, unchecked.reason}];
      unchecked_on[unchecked.rule].insert(summary.node);
    }
  }
  std::vector<NotChecked> merged;
  merged.reserve(nodes.size());
  for (const auto& [what, count] : nodes) {
    const auto& [rule, reason] = what;
    const bool everywhere = count == summaries.size();
    merged.push_back(
        {.rule = rule,
         .reason = everywhere ? reason : fmt::format("{} (on {} of {} nodes)", reason, count, summaries.size()),
         .checked_elsewhere = unchecked_on[rule].size() < summaries.size()});
  }
  return merged;
}

template <class T>
void move_all(std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  std::vector<T>().swap(from);
}

/// Infinite where it is not known.
double clock_error(const NodeSummary& summary) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const auto& coverage = summary.part.coverage;
  return coverage.empty() ? kUnknown : coverage.front().clock_error_seconds.value_or(kUnknown);
}

/// Needs summaries whose coverage was not moved away.
std::vector<NodeRanks> ranks_of_nodes(const std::vector<NodeSummary>& summaries) {
  std::vector<NodeRanks> nodes;
  nodes.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) {
    nodes.push_back({.node = summary.node,
                     .boot_id = summary.boot_id,
                     .clock_error_seconds = clock_error(summary),
                     .steps = summary.steps,
                     .calls = summary.calls,
                     .collectives = summary.collectives});
  }
  return nodes;
}

void join_part(NodeSummary& summary, Report& report) {
  Report& part = summary.part;
  move_all(part.findings, report.findings);
  // Summaries of earlier versions have their episodes only.
  add_anomalous_time(part.anomalous.empty() ? anomalous_time(part.episodes) : part.anomalous, report.anomalous);
  move_all(part.episodes, report.episodes);
  move_all(part.coverage, report.coverage);
  move_all(part.totals, report.totals);
  move_all(part.overhead, report.overhead);
  move_all(part.faster, report.faster);
  if (report.locality.size() < kMostMaps) {
    report.locality.insert(report.locality.end(), part.locality.begin(), part.locality.end());
    report.python.insert(report.python.end(), part.python.begin(), part.python.end());
  } else if (!part.locality.empty()) {
    report.omitted["maps of nodes"] += 1;
  }
  for (const auto& [what, count] : part.omitted) report.omitted[what] += count;
  report.partial = report.partial || part.partial;
  report.privileged = report.privileged || part.privileged;
  report.shared_node = report.shared_node || part.shared_node;
  report.files.emplace_back("trace " + summary.node, summary.trace);
}

/// Adds the differences of nodes, and removes the findings and labels the episodes that they explain.
void compare_nodes(const std::vector<NodeSummary>& summaries, std::span<const NodeRanks> ranks, JobOutcome end,
                   const AnalysisSettings& settings, Report& report) {
  std::vector<const NodeProfile*> profiles;
  for (const NodeSummary& summary : summaries) {
    if (!summary.profile.channels.empty()) profiles.push_back(&summary.profile);
  }
  report.comparison = compare_peers(profiles, settings);
  label_common(summaries, report.comparison, report);
  const TimeSpan job{report.job.begin_utc_ns, report.job.end_utc_ns};
  std::vector<Finding> of_nodes = run_job_rules({.comparison = report.comparison,
                                                 .nodes = profiles,
                                                 .job = job,
                                                 .found = report.findings,
                                                 .ranks = ranks,
                                                 .names = remedy_names(report.job),
                                                 .nodes_missing = report.job.nodes_missing,
                                                 .end = end},
                                                settings);
  void_where_kernel_is_shared(summaries, of_nodes);
  move_all(of_nodes, report.findings);
  drop_explained_elsewhere(job, report.findings);
}

struct ChosenLine {
  const NodeSummary& summary;
  const TimelineChannel& line;
};

/// The lines that a report draws, in its order.
std::vector<ChosenLine> chosen_lines(const std::vector<NodeSummary>& summaries, const std::vector<Finding>& findings) {
  std::vector<const NodeSummary*> order;
  order.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) order.push_back(&summary);
  std::set<std::string_view> of_finding;
  std::set<std::pair<std::string, std::string>> first;  // node and channel
  if (!findings.empty()) {
    of_finding.insert(findings.front().nodes.begin(), findings.front().nodes.end());
    for (const Evidence& one : findings.front().evidence) {
      first.emplace(one.node, channel_name(one.metric, one.instance));
    }
  }
  const auto affected = [&](const NodeSummary* summary) { return of_finding.contains(summary->node); };
  std::stable_partition(order.begin(), order.end(), affected);
  std::vector<ChosenLine> chosen;
  for (const bool evidence : {true, false}) {
    for (const NodeSummary* summary : order) {
      for (const TimelineChannel& line : summary->part.timeline) {
        if (chosen.size() >= kMostTimelines) return chosen;
        if (first.contains({summary->node, line.name}) == evidence) chosen.push_back({*summary, line});
      }
    }
  }
  return chosen;
}

void keep_strongest(Report& report) {
  std::stable_sort(report.episodes.begin(), report.episodes.end(),
                   [](const ReportEpisode& a, const ReportEpisode& b) { return a.score > b.score; });
  if (report.episodes.size() <= kMostEpisodes) return;
  report.omitted["episodes"] += static_cast<double>(report.episodes.size() - kMostEpisodes);
  report.episodes.resize(kMostEpisodes);
}

}  // namespace

Report merged_parts(std::vector<NodeSummary>& summaries, const std::vector<InputProblem>& problems,
                    const ReportOptions& options, JobOutcome end) {
  Report report;
  report.created_utc_ns = options.now_utc_ns;
  report.tool_version = REVEAL_VERSION;
  merge_job(summaries, report.job);
  const std::vector<NodeRanks> ranks = ranks_of_nodes(summaries);
  for (NodeSummary& summary : summaries) join_part(summary, report);
  compare_with_senders(summaries, options.settings, report.findings);
  name_nodes(summaries, report.findings);
  if (!report.totals.empty()) report.totals.insert(report.totals.begin(), whole_job(report.totals));
  add_problems(problems, report);
  add_problems(recordings_apart(summaries), report);
  compare_nodes(summaries, ranks, end, options.settings, report);
  keep_strongest(report);
  finish_anomalous_time(report.anomalous);
  report.marks = job_marks(summaries);
  report.phases = job_phases(summaries, report.omitted);
  report.not_checked = merge_not_checked(summaries);
  report.report_id =
      text_hash(fmt::format("{}\n{}\n{}", report.job.id, report.job.begin_utc_ns, report.created_utc_ns));
  report.files.emplace_back("report as data", kReportFile);
  report.files.emplace_back("report as text", kTextPageFile);
  report.files.emplace_back("report as a page", kWebPageFile);
  return report;
}

void draw_timelines(const std::vector<NodeSummary>& summaries, const LinesOfNode& again, Report& report) {
  std::map<const NodeSummary*, std::vector<TimelineChannel>> read;
  for (const ChosenLine& chosen : chosen_lines(summaries, report.findings)) {
    const TimelineChannel* line = &chosen.line;
    if (line->values.empty() && again) {
      const auto [lines, added] = read.try_emplace(&chosen.summary);
      if (added) lines->second = again(chosen.summary);
      const auto same = std::find_if(lines->second.begin(), lines->second.end(),
                                     [&](const TimelineChannel& one) { return one.name == chosen.line.name; });
      line = same == lines->second.end() ? nullptr : &*same;
    }
    if (line == nullptr) {
      report.omitted["timelines"] += 1;
      continue;
    }
    report.timeline.push_back(*line);
    report.timeline.back().begin_seconds +=
        static_cast<double>(chosen.summary.part.job.begin_utc_ns - report.job.begin_utc_ns) * 1e-9;
  }
}

}  // namespace reveal
