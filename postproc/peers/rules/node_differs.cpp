// A node has channels that differ from those of the nodes that do the same work.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/peers/job_rule.h"
#include "postproc/peers/peer_deviations.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::node_differs {
namespace {

Finding differs(const PeerComparison& comparison, const std::vector<const PeerDeviation*>& telling, TimeSpan job,
                const EffectiveRule& rule) {
  const PeerDeviation& first = *telling.front();
  const PeerGroup* group = group_of(comparison, first.node);
  const std::size_t peers = group == nullptr ? 0 : group->nodes.size() - 1;
  Finding finding = rule.finding({first.node});
  finding.subsystem = first.subsystem;
  finding.intervals = {job};
  finding.confidence = peers >= 7 ? Confidence::likely : Confidence::possible;
  const bool state =
      std::any_of(telling.begin(), telling.end(), [](const auto* deviation) { return is_state(*deviation); });
  finding.severity = state ? Severity::notice : Severity::info;
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(telling.size(), 3); ++i) {
    list +=
        fmt::format("{}{} {} instead of {}", i == 0 ? "" : ", ", telling[i]->channel,
                    quantity(telling[i]->observed, telling[i]->unit), quantity(telling[i]->expected, telling[i]->unit));
  }
  finding.sentence = fmt::format("Over the whole job, {} differed from the {} nodes that do the same work in {}: {}.",
                                 first.node, peers, counted(static_cast<double>(telling.size()), "channel"), list);
  finding.impact.how = "not known: the nodes differ, but no other node was seen waiting";
  for (std::size_t i = 0; i < std::min<std::size_t>(telling.size(), 6); ++i) {
    finding.evidence.push_back(evidence_of(*telling[i], job));
  }
  std::vector<std::string> settings;
  for (const FactDifference& fact : comparison.facts) {
    if (std::find(fact.nodes.begin(), fact.nodes.end(), first.node) == fact.nodes.end()) continue;
    if (settings.size() < 3)
      settings.push_back(fmt::format("{} is {}, elsewhere {}", fact.key, fact.value, fact.usual));
  }
  if (!settings.empty()) {
    finding.sentence += " Its configuration differs too:";
    for (std::size_t i = 0; i < settings.size(); ++i) finding.sentence += (i == 0 ? " " : "; ") + settings[i];
    finding.sentence += ".";
  }
  finding.runner_up = {"", "one rank may have more work: check whether the difference follows the rank"};
  return finding;
}

std::vector<JobFinding> check(const JobRuleContext& context, const EffectiveRule& rule) {
  const DifferingNodes nodes = nodes_that_differ(context.comparison.deviations, rule.threshold("min_metrics"));
  std::vector<JobFinding> findings;
  for (const auto& [node, telling] : nodes) {
    if (node != context.comparison.straggler.node) {
      findings.push_back(differs(context.comparison, telling, context.job, rule));
    }
  }
  return findings;
}

const RegisteredJobRule kDiffers(
    check,
    {
        .id = "node.differs",
        .title = "One node differs from its peers",
        .looks_for =
            "A node whose channels differ from those of its peers by more than the peers differ from each other.",
        .kind = FindingKind::peer,
        .states = Stated::difference,
        .subsystem = Subsystem::cpu,
        .order = 500,
        .look_alikes = "a rank with another role",
        .proof = Proof::test_double,
        .thresholds = {{"min_percent", 10, "percent", "least difference of a channel"},
                       {"min_metrics", 2, "metrics",
                        "least number of different metrics that describe the state of the node"}},
        .user_remedy =
            {{"#SBATCH --exclude={nodes}   # in one run: if another node differs then, the program is the cause",
              "job"}},
        .admin_remedy = {"diff <(ssh {node} sysctl -a) <(ssh {peer} sysctl -a)   # and firmware, memory, services"},
        .verify = kFollowsTheNode,
        .sources = {"https://arxiv.org/abs/2510.26008"},
    });

}  // namespace
}  // namespace reveal::rule::node_differs
