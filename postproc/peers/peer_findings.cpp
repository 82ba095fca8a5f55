// What the comparison of a job's nodes is worth telling: nothing for a healthy job.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/peers/peer_deviations.h"
#include "postproc/peers/peers.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

Evidence evidence_of(const PeerDeviation& deviation, TimeSpan span) {
  Evidence evidence;
  evidence.metric = base_metric(deviation.channel);
  if (evidence.metric.size() < deviation.channel.size())
    evidence.instance = deviation.channel.substr(evidence.metric.size() + 1);
  evidence.node = deviation.node;
  evidence.feature = "mean against the median of the other nodes";
  evidence.observed = deviation.observed;
  evidence.expected = deviation.expected;
  evidence.unit = deviation.unit;
  evidence.span = span;
  evidence.detectors = {"PEERS"};
  evidence.score = shown_score(deviation.t);
  return evidence;
}

const PeerGroup* group_of(const PeerComparison& comparison, const std::string& node) {
  for (const PeerGroup& group : comparison.groups) {
    if (std::binary_search(group.nodes.begin(), group.nodes.end(), node)) return &group;
  }
  return nullptr;
}

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
  finding.sentence = fmt::format("Over the whole job {} differed from the {} nodes that do the same work in {}: {}.",
                                 first.node, peers, counted(static_cast<double>(telling.size()), "channel"), list);
  finding.impact.how = "not known: the nodes differ, but nothing was seen to wait for it";
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
  finding.runner_up = {"", "one rank may have been given more to do: see whether the difference follows the rank"};
  return finding;
}

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
      "{} waits least: its own work or node held its ranks for {} cpus on average, those of the {} others for {}, "
      "which "
      "slept the rest of the time. In a job whose nodes work in step the others wait for it.",
      straggler.node, number(straggler.observed), peers, number(straggler.expected));
  finding.impact = {straggler.seconds, straggler.percent,
                    "time the others slept while it was busy; nothing is lost if they do not wait for each other"};
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
  finding.runner_up = {"", "it may simply have more to do than the others: then the waiting follows the rank"};
  return finding;
}

}  // namespace

std::vector<Finding> peer_findings(const PeerComparison& comparison, TimeSpan job, const AnalysisSettings& settings) {
  const EffectiveRule straggling("node.straggler", settings);
  const EffectiveRule differing("node.differs", settings);
  std::vector<Finding> findings;
  if (!comparison.straggler.node.empty() && straggling.enabled()) {
    findings.push_back(straggles(comparison, job, straggling));
  }
  if (!differing.enabled()) return findings;
  std::map<std::string, std::vector<const PeerDeviation*>> by_node;
  for (const PeerDeviation& deviation : comparison.deviations) {
    if (deviation.telling) by_node[deviation.node].push_back(&deviation);
  }
  for (const auto& [node, telling] : by_node) {
    std::set<std::string> metrics;
    for (const PeerDeviation* deviation : telling) metrics.insert(base_metric(deviation->channel));
    const bool enough = static_cast<double>(metrics.size()) >= differing.threshold("min_metrics");
    if (enough && node != comparison.straggler.node) findings.push_back(differs(comparison, telling, job, differing));
  }
  return findings;
}

}  // namespace reveal
