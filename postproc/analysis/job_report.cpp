#include "postproc/analysis/job_report.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/version.h"
#include "postproc/analysis/job_history.h"
#include "postproc/analysis/job_phases.h"
#include "postproc/analysis/job_remedy.h"
#include "postproc/analysis/job_totals.h"
#include "postproc/analysis/lost_segments.h"
#include "postproc/analysis/node_addresses.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/analysis/node_marks.h"
#include "postproc/analysis/parallel.h"
#include "postproc/analysis/slurm_job_record.h"
#include "postproc/analysis/straggler_threads.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/mute.h"
#include "postproc/history/feedback.h"
#include "postproc/peers/job_rule.h"
#include "postproc/report/anomalous_time.h"
#include "postproc/report/job_ending.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/node_folders.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

constexpr std::size_t kMostEpisodes = 60;
constexpr std::size_t kMostMaps = 32;
constexpr std::size_t kMostSingleCoverage = 256;  // nodes, each with an entry of its own
constexpr double kNearlyAll = 0.95;               // share of a node's samples
/// Memory of all nodes that are analysed at the same time; a larger node is analysed alone.
constexpr std::size_t kMostMemory = std::size_t{1} << 30;

std::int64_t modified_ns(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::numeric_limits<std::int64_t>::min();
  return nanoseconds_of(status.st_mtim);
}

void merge_job(const std::vector<NodeSummary>& summaries, ReportJob& job) {
  bool first = true;
  for (const NodeSummary& summary : summaries) {
    const ReportJob& theirs = summary.part.job;
    if (first) job = theirs;
    first = false;
    job.begin_utc_ns = std::min(job.begin_utc_ns, theirs.begin_utc_ns);
    job.end_utc_ns = std::max(job.end_utc_ns, theirs.end_utc_ns);
  }
  job.oom_kills.reset();
  for (const NodeSummary& summary : summaries) {
    if (const auto kills = summary.part.job.oom_kills) job.oom_kills = job.oom_kills.value_or(0) + *kills;
  }
  job.nodes.clear();
  job.nodes.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) job.nodes.push_back(summary.node);
  std::sort(job.nodes.begin(), job.nodes.end());
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

/// "Nodes" that are namespaces of one machine: the others' ranks look like outsiders to each of them.
std::set<std::string> nodes_sharing_a_kernel(const std::vector<NodeSummary>& summaries) {
  std::map<std::string, int> nodes_of;
  for (const NodeSummary& summary : summaries) ++nodes_of[summary.boot_id];
  std::set<std::string> nodes;
  for (const NodeSummary& summary : summaries) {
    if (!summary.boot_id.empty() && nodes_of[summary.boot_id] > 1) nodes.insert(summary.node);
  }
  return nodes;
}

void void_where_kernel_is_shared(std::vector<NodeSummary>& summaries) {
  const std::set<std::string> sharing = nodes_sharing_a_kernel(summaries);
  for (NodeSummary& summary : summaries) {
    if (!sharing.contains(summary.node)) continue;
    for (const RuleSpec* rule : rules()) {
      if (!rule->whole_machine) continue;
      const auto named = [rule](const Finding& finding) { return finding.id == rule->id; };
      std::erase_if(summary.part.findings, named);
      summary.part.not_checked.push_back(
          {std::string(rule->id), "nodes of this job share one kernel, so processes of others cannot be told apart"});
    }
  }
}

/// The same for findings of several nodes together.
void void_where_kernel_is_shared(const std::vector<NodeSummary>& summaries, std::vector<Finding>& of_nodes) {
  const std::set<std::string> sharing = nodes_sharing_a_kernel(summaries);
  std::erase_if(of_nodes, [&](const Finding& finding) {
    const RuleSpec* rule = find_rule(finding.id);
    return rule != nullptr && rule->whole_machine &&
           std::any_of(finding.nodes.begin(), finding.nodes.end(),
                       [&](const std::string& node) { return sharing.contains(node); });
  });
}

NotJudged not_judged(const std::vector<NodeSummary>& summaries, const ReportJob& job) {
  constexpr double kLeastShare = 0.8;
  NotJudged nodes;
  for (const NodeSummary& summary : summaries) {
    std::string reason = summary.insufficient;
    // A killed collector has recorded nothing of the rest.
    if (reason.empty() && !summary.complete && summary.seconds < kLeastShare * job.ran_seconds.value_or(0)) {
      reason = fmt::format("{} of {} were recorded ({:.0f} %), at least {:.0f} % are needed", duration(summary.seconds),
                           duration(*job.ran_seconds), 100 * summary.seconds / *job.ran_seconds, 100 * kLeastShare);
    }
    if (!reason.empty() || !summary.damaged.empty()) nodes.push_back({summary.node, reason, summary.damaged});
  }
  return nodes;
}

/// Removes findings that contradict a job's successful end.
void drop_what_did_not_end_the_job(const ReportJob& job, std::vector<Finding>& findings) {
  if (!has_ended_well(job)) return;
  std::erase_if(findings, [](const Finding& finding) {
    const RuleSpec* rule = find_rule(finding.id);
    return rule != nullptr && rule->never_ends_well;
  });
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

/// An episode that the peers show as well, at the same time and in the same channels, is a phase of the job and no
/// news.
void label_common(const std::vector<NodeSummary>& summaries, const PeerComparison& comparison, Report& report) {
  constexpr double kMostPeers = 0.8;
  std::map<std::string_view, const NodeProfile*> profiles;
  for (const NodeSummary& summary : summaries) profiles[summary.node] = &summary.profile;
  std::vector<std::vector<const NodeProfile*>> groups;
  std::map<std::string_view, std::size_t> group_of_node;
  for (const PeerGroup& group : comparison.groups) {
    if (group.nodes.size() < 3) continue;  // one node of two is no majority
    std::vector<const NodeProfile*>& peers = groups.emplace_back();
    for (const std::string& node : group.nodes) {
      if (profiles.at(node)->all_trends) peers.push_back(profiles.at(node));
      group_of_node[node] = groups.size() - 1;
    }
  }
  std::set<std::pair<std::string, std::int64_t>> common;  // node and begin
  for (ReportEpisode& episode : report.episodes) {
    const auto group = group_of_node.find(episode.node);
    if (group == group_of_node.end() || episode.reasons.empty()) continue;
    std::vector<std::string> channels;
    for (std::size_t i = 0; i < std::min(kPhaseReasons, episode.reasons.size()); ++i) {
      channels.push_back(channel_name(episode.reasons[i].metric, episode.reasons[i].instance));
    }
    const auto share = share_of_peers_alike(*profiles.at(episode.node), groups[group->second], episode.span, channels);
    if (!share || *share < kMostPeers) continue;
    if (!has_label(episode, Label::common)) episode.labels.push_back(Label::common);
    common.insert({episode.node, episode.span.begin_utc_ns});
  }
  std::erase_if(report.findings, [&](const Finding& finding) {
    return finding.id == kUnexplained && finding.nodes.size() == 1 && finding.intervals.size() == 1 &&
           common.count({finding.nodes.front(), finding.intervals.front().begin_utc_ns}) > 0;
  });
}

/// A deviation of one node while another one had a known disturbance, or was waited for, is an effect of that.
void drop_explained_elsewhere(const TimeSpan& job, std::vector<Finding>& findings) {
  constexpr double kSame = 0.5;  // share of both intervals: they are together for longer than apart
  // With the nodes where no rule explained it; a node that was waited for also explains its own deviations.
  std::vector<std::pair<TimeSpan, std::vector<std::string>>> known;
  for (const Finding& finding : findings) {
    const bool waited_for = finding.id == "node.straggler";
    if (!waited_for && (finding.id == kUnexplained || finding.kind != FindingKind::anomaly)) continue;
    if (finding.severity < Severity::notice) continue;
    for (const TimeSpan& span : finding.intervals) {
      if (span != job) known.emplace_back(span, waited_for ? std::vector<std::string>{} : finding.nodes);
    }
  }
  const auto begin_of = [](const auto& each) { return each.first.begin_utc_ns; };
  std::ranges::stable_sort(known, {}, begin_of);
  std::erase_if(findings, [&](const Finding& unexplained) {
    if (unexplained.id != kUnexplained || unexplained.intervals.size() != 1) return false;
    const TimeSpan& span = unexplained.intervals.front();
    const auto length = static_cast<double>(span.end_utc_ns - span.begin_utc_ns);
    // Two spans that share so much of each other begin within this of each other.
    const auto reach = static_cast<std::int64_t>((1 / kSame - 1) * length);
    for (auto each = std::ranges::lower_bound(known, span.begin_utc_ns - reach, {}, begin_of);
         each != known.end() && begin_of(*each) <= span.begin_utc_ns + reach; ++each) {
      const TimeSpan& theirs = each->first;
      const auto both = static_cast<double>(std::min(span.end_utc_ns, theirs.end_utc_ns) -
                                            std::max(span.begin_utc_ns, theirs.begin_utc_ns));
      const auto longer = std::max(length, static_cast<double>(theirs.end_utc_ns - theirs.begin_utc_ns));
      if (each->second != unexplained.nodes && both >= kSame * longer) return true;
    }
    return false;
  });
}

/// The evidence of the primary finding comes first, then its nodes; every line keeps its own place on the job's axis.
std::vector<TimelineChannel> merge_timelines(const std::vector<NodeSummary>& summaries, const Report& report) {
  std::vector<const NodeSummary*> order;
  order.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) order.push_back(&summary);
  std::set<std::string_view> of_finding;
  if (!report.findings.empty()) {
    const std::vector<std::string>& nodes = report.findings.front().nodes;
    of_finding.insert(nodes.begin(), nodes.end());
  }
  const auto affected = [&](const NodeSummary* summary) { return of_finding.contains(summary->node); };
  std::stable_partition(order.begin(), order.end(), affected);
  std::set<std::pair<std::string, std::string>> first;  // node and channel
  if (!report.findings.empty()) {
    for (const Evidence& one : report.findings.front().evidence) {
      first.emplace(one.node, channel_name(one.metric, one.instance));
    }
  }
  std::vector<TimelineChannel> lines;
  for (const bool evidence : {true, false}) {
    for (const NodeSummary* summary : order) {
      for (const TimelineChannel& line : summary->part.timeline) {
        if (lines.size() >= kMostTimelines) return lines;
        if (first.contains({summary->node, line.name}) != evidence) continue;
        lines.push_back(line);
        lines.back().begin_seconds +=
            static_cast<double>(summary->part.job.begin_utc_ns - report.job.begin_utc_ns) * 1e-9;
      }
    }
  }
  return lines;
}

void add_problems(const std::vector<InputProblem>& problems, Report& report) {
  std::set<std::string> listed(report.job.nodes.begin(), report.job.nodes.end());
  listed.insert(report.job.nodes_missing.begin(), report.job.nodes_missing.end());
  std::map<std::string, std::size_t> coverage_of;
  for (std::size_t i = 0; i < report.coverage.size(); ++i) {
    if (report.coverage[i].nodes.size() == 1) coverage_of.try_emplace(report.coverage[i].nodes.front(), i);
  }
  for (const InputProblem& problem : problems) {
    report.partial = report.partial || problem.unusable;
    if (problem.unusable && !problem.node.empty() && listed.insert(problem.node).second) {
      report.job.nodes_missing.push_back(problem.node);
    }
    const auto [known, added] = coverage_of.try_emplace(problem.node, report.coverage.size());
    if (added) report.coverage.emplace_back();
    if (added && !problem.node.empty()) report.coverage.back().nodes = {problem.node};
    std::string& note = report.coverage[known->second].note;
    note += (note.empty() ? "" : "; ") + problem.text;
  }
}

/// A collector that started late on a busy node saw less than the command's time, which the page gives.
void note_unrecorded_time(const std::vector<NodeSummary>& summaries, Report& report) {
  constexpr double kLeastSeconds = 2;
  constexpr double kLeastShare = 0.05;
  const double ran = report.job.ran_seconds.value_or(0);
  std::vector<InputProblem> notes;
  for (const NodeSummary& summary : summaries) {
    if (ran - summary.seconds < std::max(kLeastSeconds, kLeastShare * ran)) continue;
    notes.push_back(
        {summary.node, fmt::format("{} of the run's {} were recorded", duration(summary.seconds), duration(ran))});
  }
  add_problems(notes, report);
}

/// Nodes that recorded at another time than most of them, by their clocks: then the job's begin and end are not those
/// of one node, and its length is no run time.
std::vector<InputProblem> recordings_apart(const std::vector<NodeSummary>& summaries) {
  constexpr std::int64_t kApart = 10 * kSecond;
  constexpr std::size_t kMostTold = 20;
  std::vector<const NodeSummary*> order;
  order.reserve(summaries.size());
  for (const NodeSummary& summary : summaries) order.push_back(&summary);
  const auto begin_of = [](const NodeSummary* summary) { return summary->part.job.begin_utc_ns; };
  std::stable_sort(order.begin(), order.end(),
                   [&](const NodeSummary* a, const NodeSummary* b) { return begin_of(a) < begin_of(b); });
  std::vector<std::span<const NodeSummary* const>> groups;  // their recordings overlap
  std::int64_t end = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool apart = i == 0 || begin_of(order[i]) - end > kApart;
    if (apart)
      groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(i),
                          order.begin() + static_cast<std::ptrdiff_t>(i));
    groups.back() = {groups.back().data(), groups.back().size() + 1};
    end = std::max(apart ? 0 : end, order[i]->part.job.end_utc_ns);
  }
  const auto most =
      std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<InputProblem> told;
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    for (const NodeSummary* one : *group) {
      if (group == most || told.size() == kMostTold) continue;
      const auto later = static_cast<double>(begin_of(one) - begin_of(most->front())) * 1e-9;
      const std::string others =
          most->size() == 1 ? "that of " + most->front()->node : fmt::format("those of {} nodes", most->size());
      told.push_back(
          {one->node, fmt::format("its recording begins {} {} {}, without a common time: its clock was wrong, or "
                                  "it recorded at another time",
                                  duration(std::abs(later)), later < 0 ? "before" : "after", others)});
    }
  }
  return told;
}

/// Keeps one trace for each node: the longest, and a closed one before a cut one of the same length.
void drop_duplicates(std::vector<NodeSummary>& summaries, std::vector<InputProblem>& problems) {
  std::stable_sort(summaries.begin(), summaries.end(), [](const NodeSummary& a, const NodeSummary& b) {
    if (a.node != b.node) return a.node < b.node;
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return a.complete && !b.complete;
  });
  for (std::size_t i = 1; i < summaries.size();) {
    const NodeSummary& kept = summaries[i - 1];
    const NodeSummary& dropped = summaries[i];
    if (kept.node != dropped.node) {
      ++i;
      continue;
    }
    problems.push_back(
        {kept.node, fmt::format("two traces of {}: {} ({}) is used, {} ({}) is not", kept.node, kept.trace,
                                duration(kept.seconds), dropped.trace, duration(dropped.seconds))});
    summaries.erase(summaries.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Adds the expected nodes without a trace; an unread folder for which no node was expected stands for itself.
void note_missing_nodes(const std::vector<NodeSummary>& summaries, const ReportOptions& options,
                        const std::vector<UnreadFolder>& unread, std::vector<InputProblem>& problems) {
  std::set<std::string> present;
  std::set<std::string> expected(options.expected_nodes.begin(), options.expected_nodes.end());
  std::set<std::string_view> lists;  // the same one on most nodes
  for (const NodeSummary& summary : summaries) {
    present.insert(summary.node);
    if (expected.size() >= kMostExpectedNodes || !lists.insert(summary.expected_nodes).second) continue;
    for (std::string& node : expand_node_list(summary.expected_nodes)) expected.insert(std::move(node));
  }
  for (const InputProblem& problem : problems) {
    if (problem.unusable) present.insert(problem.node);  // its file is there and has its own line
  }
  std::map<std::string_view, std::string_view> why_unread;
  for (const UnreadFolder& folder : unread) why_unread.emplace(folder.name, folder.why);
  std::set<std::string> explained;
  for (const std::string& node : expected) {
    if (present.count(node) > 0) continue;
    const std::string folder = node_folder(node);
    const auto why = why_unread.find(folder);
    problems.push_back({node,
                        why == why_unread.end() ? node + " has no trace: its collector did not deliver one"
                                                : fmt::format("{} was not read: {}: {}", node, folder, why->second),
                        true});
    if (why != why_unread.end()) explained.insert(folder);
  }
  for (const UnreadFolder& folder : unread) {
    if (!explained.contains(folder.name)) {
      problems.push_back({"", fmt::format("the nodes in {} were not read: {}", folder.name, folder.why), true});
    }
  }
}

using Variants = std::span<const AnalysisSettings>;

/// A summary for each of the settings.
std::vector<NodeSummary> summarise(const ListedTrace& trace, Variants settings, MemoryBudget& budget,
                                   std::size_t threads) {
  std::vector<NodeSummary> summaries = analyse_file(trace.path, settings, budget, threads);
  for (NodeSummary& summary : summaries) {
    summary.trace = trace.path.filename().string();
    summary.trace_bytes = trace.bytes;
    summary.trace_mtime_ns = trace.mtime_ns;
    auto& overhead = summary.part.overhead.front();
    if (summary.seconds > 0) overhead.bytes_per_second = static_cast<double>(trace.bytes) / summary.seconds;
  }
  return summaries;
}

/// The result for one trace.
struct NodeOutcome {
  std::optional<NodeSummary> summary;
  std::optional<InputProblem> problem;
  bool anew = false;  // the trace was analysed
};

NodeOutcome outcome_of(const ListedTrace& trace, NodeSummary summary, bool publish) {
  NodeOutcome outcome{.anew = true};
  try {
    summary = publish ? publish_summary(trace.path, summary) : parse_summary(render_summary(summary));
  } catch (const Error& error) {
    outcome.problem = {summary.node, fmt::format("summary not kept: {}", error.what())};
  }
  outcome.summary = std::move(summary);
  return outcome;
}

/// An outcome for each of the settings.
std::vector<NodeOutcome> analyse_anew(const ListedTrace& trace, Variants settings, bool publish, MemoryBudget& budget,
                                      std::size_t threads) {
  std::vector<NodeOutcome> outcomes;
  const auto unusable = [&](std::string why) {
    outcomes.assign(settings.size(), {.problem = InputProblem{trace.node, std::move(why), true}, .anew = true});
  };
  try {
    for (NodeSummary& summary : summarise(trace, settings, budget, threads)) {
      outcomes.push_back(outcome_of(trace, std::move(summary), publish));
    }
  } catch (const Error& error) {
    unusable(error.what());
  } catch (const std::bad_alloc&) {
    unusable(trace.path.string() + ": not enough memory to analyse it");
  }
  return outcomes;
}

std::size_t threads_of(const ReportOptions& options) {
  return options.threads > 0 ? options.threads : usable_threads();
}

/// `parsed`: summaries of these traces that need not be read, in the same order, or none at all.
std::vector<NodeOutcome> outcomes_of(std::span<const ListedTrace> traces,
                                     std::vector<std::optional<NodeSummary>> parsed, const ReportOptions& options) {
  const std::string hash = config_hash(options.settings);
  const std::size_t threads = threads_of(options);
  std::vector<NodeOutcome> outcomes(traces.size());
  run_parallel(traces.size(), threads, [&](std::size_t i) {
    if (i < parsed.size() && parsed[i] && is_fresh(*parsed[i], traces[i], hash)) {
      outcomes[i].summary = std::move(parsed[i]);
    } else {
      outcomes[i].summary = fresh_summary(traces[i], hash);
    }
  });
  std::vector<std::size_t> anew;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const auto& summary = outcomes[i].summary;
    if (summary && summary->downsampled && (!options.reuse_summaries || summary->config_hash != hash)) {
      outcomes[i].problem = {summary->node, summary->node +
                                                "'s trace was reduced to one row a minute after its analysis: " +
                                                "the results of that analysis are used"};
    } else if (!options.reuse_summaries) {
      outcomes[i].summary.reset();
    }
    if (!outcomes[i].summary) anew.push_back(i);
  }
  if (!anew.empty()) keep_freed_memory();
  MemoryBudget budget(kMostMemory);
  std::mutex one_line;
  run_parallel(anew.size(), threads, [&](std::size_t k) {
    const ListedTrace& trace = traces[anew[k]];
    if (options.progress) {
      const std::lock_guard lock(one_line);
      options.progress(trace.node, anew[k], traces.size());
    }
    outcomes[anew[k]] =
        std::move(analyse_anew(trace, {&options.settings, 1}, options.publish, budget, threads).front());
  });
  return outcomes;
}

/// An outcome for each of the settings: from a stored summary, or from one analysis for all that have none.
std::vector<NodeOutcome> outcomes_with(const ListedTrace& trace, Variants settings, MemoryBudget& budget,
                                       std::size_t threads) {
  std::vector<NodeOutcome> outcomes(settings.size());
  std::vector<AnalysisSettings> anew;
  for (std::size_t k = 0; k < settings.size(); ++k) {
    outcomes[k].summary = fresh_summary(trace, config_hash(settings[k]));
    if (!outcomes[k].summary) anew.push_back(settings[k]);
  }
  if (anew.empty()) return outcomes;
  std::vector<NodeOutcome> results = analyse_anew(trace, anew, false, budget, threads);
  auto next = results.begin();
  for (NodeOutcome& outcome : outcomes) {
    if (!outcome.summary) outcome = std::move(*next++);
  }
  return outcomes;
}

std::vector<NodeSummary> usable(std::vector<NodeOutcome> outcomes, std::vector<InputProblem>& problems) {
  std::vector<NodeSummary> summaries;
  summaries.reserve(outcomes.size());
  for (NodeOutcome& outcome : outcomes) {
    if (outcome.summary) summaries.push_back(*std::move(outcome.summary));
    if (outcome.problem) problems.push_back(*std::move(outcome.problem));
  }
  return summaries;
}

/// The summaries of all nodes, from parts of the merge as far as there are any.
std::vector<NodeSummary> summaries_of(const std::filesystem::path& directory, std::span<const ListedTrace> traces,
                                      const ReportOptions& options, std::vector<InputProblem>& problems) {
  std::vector<std::optional<NodeSummary>> parsed;
  if (options.reuse_summaries) {
    parsed = summaries_in_parts(directory, traces, config_hash(options.settings), threads_of(options), options.remark);
  }
  std::vector<NodeSummary> summaries = usable(outcomes_of(traces, std::move(parsed), options), problems);
  if (summaries.size() > kNodesOfPart) return_freed_memory();  // the memory of their texts
  return summaries;
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

/// All parts, without the conclusions from them. Most of them are moved out of the summaries.
Report merged_parts(std::vector<NodeSummary>& summaries, const std::vector<InputProblem>& problems,
                    const ReportOptions& options, JobOutcome end = JobOutcome::not_known) {
  Report report;
  report.created_utc_ns = options.now_utc_ns;
  report.tool_version = REVEAL_VERSION;
  merge_job(summaries, report.job);
  std::vector<Finding>& findings = report.findings;
  std::vector<NodeSteps> steps;
  steps.reserve(summaries.size());
  std::vector<NodeCalls> calls;
  calls.reserve(summaries.size());
  std::vector<NodeCollectives> collectives;
  collectives.reserve(summaries.size());
  for (NodeSummary& summary : summaries) {
    calls.push_back({summary.node, summary.calls});
    steps.push_back({summary.node, summary.steps, summary.boot_id, clock_error(summary)});
    collectives.push_back({summary.node, summary.collectives, summary.boot_id, clock_error(summary)});
    Report& part = summary.part;
    move_all(part.findings, findings);
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
  compare_with_senders(summaries, options.settings, findings);
  name_nodes(summaries, findings);
  if (!report.totals.empty()) report.totals.insert(report.totals.begin(), whole_job(report.totals));
  add_problems(problems, report);
  add_problems(recordings_apart(summaries), report);
  std::vector<const NodeProfile*> profiles;
  for (const NodeSummary& summary : summaries) {
    if (!summary.profile.channels.empty()) profiles.push_back(&summary.profile);
  }
  report.comparison = compare_peers(profiles, options.settings);
  label_common(summaries, report.comparison, report);
  const TimeSpan job{report.job.begin_utc_ns, report.job.end_utc_ns};
  auto of_nodes = run_job_rules({.comparison = report.comparison,
                                 .nodes = profiles,
                                 .job = job,
                                 .found = findings,
                                 .steps = steps,
                                 .calls = calls,
                                 .collectives = collectives,
                                 .names = remedy_names(report.job),
                                 .nodes_missing = report.job.nodes_missing,
                                 .end = end},
                                options.settings);
  void_where_kernel_is_shared(summaries, of_nodes);
  findings.insert(findings.end(), of_nodes.begin(), of_nodes.end());
  drop_explained_elsewhere(job, findings);
  std::stable_sort(report.episodes.begin(), report.episodes.end(),
                   [](const ReportEpisode& a, const ReportEpisode& b) { return a.score > b.score; });
  if (report.episodes.size() > kMostEpisodes) {
    report.omitted["episodes"] += static_cast<double>(report.episodes.size() - kMostEpisodes);
    report.episodes.resize(kMostEpisodes);
  }
  finish_anomalous_time(report.anomalous);
  report.marks = job_marks(summaries);
  report.phases = job_phases(summaries, report.omitted);
  report.not_checked = merge_not_checked(summaries);
  report.report_id =
      text_hash(fmt::format("{}\n{}\n{}", report.job.id, report.job.begin_utc_ns, report.created_utc_ns));
  report.files.emplace_back("report as data", "report.json");
  report.files.emplace_back("report as text", "report.txt");
  report.files.emplace_back("report as a page", "report.html");
  return report;
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

double share_present(const NodeCoverage& one) {
  return one.samples_expected && *one.samples_expected > 0 ? one.samples_present.value_or(0) / *one.samples_expected
                                                           : 0;
}

/// Equal texts: equal coverage. Nodes that have nearly all of their samples count as equal.
std::string coverage_key(const NodeCoverage& one) {
  std::string key = one.note;
  key += share_present(one) >= kNearlyAll
             ? "\n"
             : fmt::format("\n{} of {}", one.samples_present.value_or(-1), one.samples_expected.value_or(-1));
  key += one.clock_error_seconds ? "\n" : "\nno clock";
  for (const Coverage& probe : one.probes) {
    key += fmt::format("\n{}\n{}\n{}", probe.probe, static_cast<int>(probe.state), probe.reason);
  }
  return key;
}

void join_coverage(NodeCoverage&& one, NodeCoverage& group) {
  group.nodes.insert(group.nodes.end(), std::make_move_iterator(one.nodes.begin()),
                     std::make_move_iterator(one.nodes.end()));
  if (share_present(one) < share_present(group)) {
    group.samples_expected = one.samples_expected;
    group.samples_present = one.samples_present;
  }
  if (one.clock_error_seconds) {
    group.clock_error_seconds = std::max(group.clock_error_seconds.value_or(0), *one.clock_error_seconds);
  }
}

/// Thousands of nodes, usually with equal coverage, share one entry: the samples are those of the node with the
/// smallest share of them, the clock error is the largest.
std::vector<NodeCoverage> grouped_coverage(std::vector<NodeCoverage> coverage) {
  std::vector<NodeCoverage> groups;
  std::map<std::string, std::size_t> index;
  for (NodeCoverage& one : coverage) {
    const auto [known, added] = index.try_emplace(coverage_key(one), groups.size());
    if (added) {
      groups.push_back(std::move(one));
    } else {
      join_coverage(std::move(one), groups[known->second]);
    }
  }
  return groups;
}

/// The conclusions, once all findings are there.
void conclude(const std::vector<NodeSummary>& summaries, const AnalysisSettings& settings, const GivenFeedback& said,
              Report& report) {
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
  report.timeline = merge_timelines(summaries, report);  // channels of the primary finding first
  if (report.job.nodes.size() > kMostSingleCoverage) report.coverage = grouped_coverage(std::move(report.coverage));
}

/// How the job ended, as far as that is known.
struct JobEnding {
  std::optional<int> exit_code;
  std::optional<double> ran_seconds;
  std::optional<SlurmJobRecord> record;
  std::string supersedes;  // id of the report before; "" for the first one
};

JobEnding ending_of(const std::filesystem::path& directory, const ReportOptions& options) {
  JobEnding ending{.exit_code = options.exit_code,
                   .ran_seconds = options.ran_seconds,
                   .record = read_slurm_job_record(directory),
                   .supersedes = {}};
  try {
    const Report earlier = parse_report(read_text_file(directory / "report.json", kLargestReport));
    if (!ending.exit_code) ending.exit_code = earlier.job.exit_code;
    if (!ending.ran_seconds) ending.ran_seconds = earlier.job.ran_seconds;
    ending.supersedes = earlier.report_id;
  } catch (const Error&) {
    ending.supersedes.clear();
  }
  return ending;
}

void apply_ending(const JobEnding& ending, ReportJob& job) {
  job.exit_code = ending.exit_code;
  job.ran_seconds = ending.ran_seconds;
  if (job.exit_code) job.state = *job.exit_code == 0 ? "COMPLETED" : "FAILED";
  if (ending.record) apply(*ending.record, job);
}

bool ended_well(const JobEnding& ending) {
  ReportJob job;
  apply_ending(ending, job);
  return has_ended_well(job);
}

/// The report from the summaries of a job's nodes.
Report report_of(const std::filesystem::path& directory, std::span<const ListedTrace> traces,
                 std::vector<NodeSummary> summaries, const ReportOptions& options, std::vector<InputProblem>& problems,
                 const std::vector<UnreadFolder>& unread = {}) {
  if (summaries.empty()) throw Error(problems.front().text);
  drop_duplicates(summaries, problems);
  note_missing_nodes(summaries, options, unread, problems);
  void_where_kernel_is_shared(summaries);

  const JobEnding ending = ending_of(directory, options);
  Report report =
      merged_parts(summaries, problems, options, ended_well(ending) ? JobOutcome::well : JobOutcome::not_known);
  name_folders(directory, traces, report);
  add_straggler_threads(traces, summaries, report.findings);
  report.directory = name_of(directory);
  report.supersedes = ending.supersedes;
  apply_ending(ending, report.job);
  note_unrecorded_time(summaries, report);
  const auto run = compare_with_earlier(directory, summaries, options.history, options.settings, report, problems);
  conclude(summaries, options.settings, given_feedback(run, options.history, problems), report);
  if (run) keep_run(*run, options.history, report, problems);
  const bool many = summaries.size() > kNodesOfPart;
  std::vector<NodeSummary>().swap(summaries);
  if (many) return_freed_memory();  // the pages need some of their own
  return report;
}

}  // namespace

void write_summaries(const std::filesystem::path& directory, const std::string& node,
                     const AnalysisSettings& settings) {
  for (const ListedTrace& trace : traces_of_node(directory, node)) {
    try {
      MemoryBudget budget(kMostMemory);
      publish_summary(trace.path, summarise(trace, {&settings, 1}, budget, usable_threads()).front());
    } catch (const std::exception&) {
      continue;  // the report of the job tries again, and reports the error
    }
  }
}

Report merge_summaries(const std::vector<NodeSummary>& summaries, const std::vector<InputProblem>& problems,
                       const ReportOptions& options) {
  std::vector<NodeSummary> merged = summaries;
  Report report = merged_parts(merged, problems, options);
  conclude(merged, options.settings, {}, report);
  return report;
}

Report build_report(const std::filesystem::path& directory, const ReportOptions& options,
                    std::vector<InputProblem>& problems) {
  std::vector<UnreadFolder> unread;
  const std::vector<ListedTrace> traces = list_traces(directory, &unread);
  return report_of(directory, traces, summaries_of(directory, traces, options, problems), options, problems, unread);
}

Report build_node_report(const std::filesystem::path& directory, const std::string& node, const ReportOptions& options,
                         std::vector<InputProblem>& problems) {
  const std::vector<ListedTrace> traces = traces_of_node(directory, node);
  if (traces.empty()) throw Error("no trace of \"" + node + "\" in " + directory.string());
  std::vector<NodeSummary> summaries = usable(outcomes_of(traces, {}, options), problems);
  if (summaries.empty()) throw Error(problems.front().text);
  drop_duplicates(summaries, problems);
  Report report = merged_parts(summaries, problems, options);
  name_folders(directory, traces, report);
  report.directory = name_of(directory);
  if (const auto record = read_slurm_job_record(directory)) apply(*record, report.job);
  conclude(summaries, options.settings, {}, report);
  return report;
}

std::vector<Report> try_settings(const std::filesystem::path& directory, Variants settings,
                                 const ReportOptions& options) {
  std::vector<UnreadFolder> unread;
  const std::vector<ListedTrace> traces = list_traces(directory, &unread);
  const std::size_t threads = threads_of(options);
  std::vector<std::vector<NodeOutcome>> outcomes(traces.size());
  keep_freed_memory();
  MemoryBudget budget(kMostMemory);
  run_parallel(traces.size(), threads,
               [&](std::size_t i) { outcomes[i] = outcomes_with(traces[i], settings, budget, threads); });
  std::vector<Report> reports;
  for (std::size_t k = 0; k < settings.size(); ++k) {
    std::vector<NodeOutcome> of_settings;
    of_settings.reserve(outcomes.size());
    for (std::vector<NodeOutcome>& of_trace : outcomes) of_settings.push_back(std::move(of_trace[k]));
    ReportOptions with = options;
    with.settings = settings[k];
    std::vector<InputProblem> problems;
    std::vector<NodeSummary> summaries = usable(std::move(of_settings), problems);
    reports.push_back(report_of(directory, traces, std::move(summaries), with, problems, unread));
  }
  return reports;
}

std::size_t write_merge_part(const std::filesystem::path& directory, PartNumber part, const ReportOptions& options,
                             std::vector<InputProblem>& problems) {
  std::vector<UnreadFolder> unread;  // the report names them
  const std::vector<ListedTrace> all = list_traces(directory, &unread);
  const std::span<const ListedTrace> traces = traces_of_part(all, part);
  std::vector<std::optional<FileState>> states;
  states.reserve(traces.size());
  for (const ListedTrace& trace : traces) states.push_back(state_of_summary(trace));  // before they are read
  std::vector<NodeOutcome> outcomes = outcomes_of(traces, {}, options);
  std::vector<PartNode> nodes;
  nodes.reserve(traces.size());
  for (std::size_t i = 0; i < traces.size(); ++i) {
    NodeOutcome& outcome = outcomes[i];
    const bool stored = !outcome.anew || !outcome.problem;
    const auto state = outcome.anew ? state_of_summary(traces[i]) : states[i];
    if (outcome.summary && stored && state) nodes.push_back({traces[i], *outcome.summary, *state});
    if (outcome.problem) problems.push_back(*std::move(outcome.problem));
  }
  write_part(directory, part, config_hash(options.settings), nodes);
  return nodes.size();
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
