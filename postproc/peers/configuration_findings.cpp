// Nodes of one job that are configured unlike most of it: each difference belongs to the rule that knows what it does.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <set>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/peers/peers.h"
#include "postproc/words/lists.h"

namespace reveal {
namespace {

struct Concern {
  std::string_view begin;  // of the fact's key
  std::string_view end;
  std::string_view rule;
};

// The first that fits.
constexpr std::array kConcerns = {
    Concern{"vm.hugepages-", "", "mem.hugepages_inconsistent"},
    Concern{"vm.transparent_hugepage", "", "mem.hugepages_inconsistent"},
    Concern{"net.", ".mtu", "net.mtu_mismatch"},
    Concern{"", "", "node.config_drift"},
};

std::string_view rule_for(std::string_view key) {
  return std::find_if(
             kConcerns.begin(), kConcerns.end(),
             [&](const Concern& concern) { return key.starts_with(concern.begin) && key.ends_with(concern.end); })
      ->rule;
}

Evidence evidence_of(const FactDifference& fact, TimeSpan job) {
  return {.metric = fact.key,
          .instance = fact.value,
          .node = fact.nodes.front(),
          .feature = "value",
          .span = job,
          .detectors = {"PEERS"}};
}

Finding describe(const EffectiveRule& rule, const std::vector<const FactDifference*>& facts, Severity severity,
                 TimeSpan job) {
  constexpr std::size_t kShown = 3;
  std::set<std::string> nodes;
  for (const FactDifference* fact : facts) nodes.insert(fact->nodes.begin(), fact->nodes.end());
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  finding.severity = severity;
  finding.confidence = Confidence::certain;
  finding.intervals = {job};
  finding.impact.how = "not known: only a run on nodes that are configured alike shows it";
  std::string list;
  for (const FactDifference* fact : facts) {
    if (finding.evidence.size() < kShown) {
      list += fmt::format("{}{} has {} = {}, the others {}", list.empty() ? "" : "; ", node_list(fact->nodes),
                          fact->key, fact->value, fact->usual);
    }
    finding.evidence.push_back(evidence_of(*fact, job));
  }
  if (facts.size() > kShown) list += fmt::format("; and {} more", facts.size() - kShown);
  finding.sentence = "Nodes of the job are configured differently: " + list + ".";
  return finding;
}

}  // namespace

std::vector<Finding> configuration_findings(const PeerComparison& comparison, TimeSpan job,
                                            const AnalysisSettings& settings) {
  std::vector<Finding> findings;
  for (const std::string_view id : {"mem.hugepages_inconsistent", "net.mtu_mismatch", "node.config_drift"}) {
    const EffectiveRule rule(id, settings);
    std::vector<const FactDifference*> facts;
    for (const FactDifference& fact : comparison.facts) {
      if (rule_for(fact.key) == id) facts.push_back(&fact);
    }
    if (facts.empty() || !rule.enabled()) continue;
    findings.push_back(describe(rule, facts, id == "node.config_drift" ? Severity::info : Severity::notice, job));
  }
  return findings;
}

}  // namespace reveal
