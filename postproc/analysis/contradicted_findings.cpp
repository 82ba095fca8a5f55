#include "postproc/analysis/contradicted_findings.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "postproc/diagnose/rule.h"
#include "postproc/report/job_ending.h"
#include "postproc/report/wording.h"

namespace reveal {
namespace {

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

}  // namespace

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

void void_where_kernel_is_shared(const std::vector<NodeSummary>& summaries, std::vector<Finding>& of_nodes) {
  const std::set<std::string> sharing = nodes_sharing_a_kernel(summaries);
  std::erase_if(of_nodes, [&](const Finding& finding) {
    const RuleSpec* rule = find_rule(finding.id);
    return rule != nullptr && rule->whole_machine &&
           std::any_of(finding.nodes.begin(), finding.nodes.end(),
                       [&](const std::string& node) { return sharing.contains(node); });
  });
}

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

void drop_what_did_not_end_the_job(const ReportJob& job, std::vector<Finding>& findings) {
  if (!has_ended_well(job)) return;
  std::erase_if(findings, [](const Finding& finding) {
    const RuleSpec* rule = find_rule(finding.id);
    return rule != nullptr && rule->never_ends_well;
  });
}

}  // namespace reveal
