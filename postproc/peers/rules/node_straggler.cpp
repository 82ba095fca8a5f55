// A node for which the others wait: over the whole job, or for a while.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "postproc/diagnose/job_timings.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/peer_deviations.h"
#include "postproc/peers/step_history.h"
#include "postproc/peers/transient_straggler.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::node_straggler {
namespace {

Finding straggles(const PeerComparison& comparison, TimeSpan job, const EffectiveRule& rule) {
  const Straggler& straggler = comparison.straggler;
  const PeerGroup* group = group_of(comparison, straggler.node);
  const std::size_t peers = group == nullptr ? 0 : group->nodes.size() - 1;
  Finding finding = rule.finding({straggler.node});
  finding.intervals = {job};
  finding.confidence = Confidence::possible;
  // More to do looks the same. Only where the node itself is in another state than its peers' is it a matter of
  // machines.
  const bool state =
      std::any_of(comparison.deviations.begin(), comparison.deviations.end(), [&](const auto& deviation) {
        return deviation.node == straggler.node && deviation.telling && is_state(deviation);
      });
  const bool material =
      straggler.seconds >= rule.threshold("warning_seconds") && straggler.percent >= rule.threshold("warning_percent");
  finding.severity = state && material ? Severity::warning : Severity::notice;
  finding.sentence = fmt::format(
      "{} computes longest: its ranks ran or waited for a cpu on {} on average, those of the {} other nodes on "
      "{}; these slept the rest of the time. If the nodes work in step, the others wait for it.",
      straggler.node, counted(straggler.observed, "cpu"), peers, number(straggler.expected));
  finding.impact = {
      straggler.seconds, straggler.percent,
      "time in which the others slept while it was busy; no time is lost if the nodes do not wait for each other"};
  PeerDeviation own{.node = straggler.node,
                    .channel = straggler.signal,
                    .unit = "cpus",
                    .observed = straggler.observed,
                    .expected = straggler.expected};
  finding.evidence.push_back(evidence_of(own, job));
  finding.evidence.back().score.reset();
  for (const PeerDeviation& deviation : comparison.deviations) {
    if (deviation.node != straggler.node || !deviation.telling || finding.evidence.size() >= 6) continue;
    finding.evidence.push_back(evidence_of(deviation, job));
  }
  finding.runner_up = {"",
                       "its ranks may have more work than the others: then the waiting follows the rank, not the node"};
  return finding;
}

/// Whether a rule has found the cause of the waiting: then the straggler is no finding of its own. A remark is none.
bool has_known_cause(const Finding& straggler, std::span<const Finding> found) {
  constexpr double kExplained = 0.3;
  return std::any_of(found.begin(), found.end(), [&](const Finding& finding) {
    return finding.kind == FindingKind::anomaly && finding.severity > Severity::info && finding.id != kUnexplained &&
           covers(finding, straggler.intervals.front(), kExplained);
  });
}

/// The mean time of the steps of a rank, point by point.
JobTiming steps_of(const NodeRanks& node, const StepTrend& trend, const TimeSpan& span) {
  constexpr double kWindowSeconds = 5;
  const std::vector<double> begins = begins_of(trend);
  const double begin = static_cast<double>(span.begin_utc_ns) * 1e-9;
  const double end = static_cast<double>(span.end_utc_ns) * 1e-9;
  JobTiming timing{.node = std::string(node.node),
                   .metric = "stack.step_time",
                   .instance = trend.rank,
                   .feature = "mean",
                   .ns = {},
                   .at = {},
                   .unusual = {}};
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    timing.ns.push_back(1e9 * (begins[i + 1] - begins[i]) / static_cast<double>(trend.point_steps));
    if (!(begins[i] >= begin && begins[i + 1] <= end)) continue;
    if (timing.at.length() == 0) timing.at.begin = i;
    timing.at.end = i + 1;
  }
  timing.unusual = {widened(timing.at, 1, timing.ns.size())};  // a part of those at its ends is inside
  const double points = static_cast<double>(timing.at.length()) * kWindowSeconds / (end - begin);
  timing.window = static_cast<std::size_t>(std::max(1.0, std::round(points)));
  return timing;
}

/// All ranks that work in step have the same steps: one line of evidence.
void add_steps(std::span<const NodeRanks> ranks, Finding& finding) {
  const TimeSpan& span = finding.intervals.front();
  std::vector<JobTiming> timings;
  for (const NodeRanks& node : ranks) {
    for (const StepTrend& trend : node.steps.ranks) {
      if (trend.point_steps > 0) timings.push_back(steps_of(node, trend, span));
    }
  }
  if (auto grown = grown_timing(timings, span)) finding.evidence.push_back(*std::move(grown));
}

std::vector<JobFinding> check(const JobRuleContext& context, const EffectiveRule& rule) {
  if (!context.comparison.straggler.node.empty()) return {straggles(context.comparison, context.job, rule)};
  auto passing = transient_stragglers(context.comparison, context.nodes, context.found, rule);
  std::erase_if(passing, [&](const Finding& one) { return has_known_cause(one, context.found); });
  for (Finding& one : passing) add_steps(context.ranks, one);
  return {passing.begin(), passing.end()};
}

const RegisteredJobRule kStraggler(
    check,
    {
        .id = "node.straggler",
        .title = "The other nodes wait for one node",
        .looks_for =
            "A node that computes longer than its peers while they wait for it, over the whole job or for some time in "
            "which the nodes did less.",
        .kind = FindingKind::peer,
        .states = Stated::difference,
        .subsystem = Subsystem::process,
        .order = 500,
        .look_alikes = "a rank with more to do",
        .proof = Proof::real,
        .thresholds = {{"min_percent", 8, "percent",
                        "least own time of the node above that of its peers, over the whole job"},
                       {"min_time_at_top", 0.75, "ratio", "least part of the job in which this node waits least"},
                       {"min_passing", 0.15, "cpus",
                        "for some time only: least rise of its own time against that of its peers"},
                       {"min_passing_share", 0.15, "ratio", "least rise against its usual own time"},
                       {"min_passing_seconds", 6, "s", "shortest time of that kind"},
                       {"min_passing_score", 5, "sd", "least deviation of this time from the rest of the job"},
                       {"warning_seconds", 5, "s",
                        "lost run time from which this is a warning, if the node's state differs, too"},
                       {"warning_percent", 10, "percent",
                        "lost share of the run from which this is a warning, if the node's state differs, too"}},
        .user_remedy =
            {{"#SBATCH --exclude={nodes}   # in one run: if the time is still lost, the program is the cause", "job"}},
        .admin_remedy = {"reveal check   # on {nodes}: clock settings, memory errors, GPUs, links, full file systems",
                         "ps -eo pid,user,psr,pcpu,comm --sort=-pcpu | head -15   # on {nodes}: leftover processes",
                         "Check on {nodes}: power limits, cooling, disks."},
        .verify = kFollowsTheNode,
        .sources = {"https://github.com/traceopt-ai/traceml/issues/252"},
    });

}  // namespace
}  // namespace reveal::rule::node_straggler
