// Two nodes of a job that are in different states though they do the same work. With two there is no majority: the
// finding names both values, and one of the nodes only if another rule or earlier runs identify it.
#include "postproc/peers/node_pair.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <set>

#include "hdf5schema/basics/text.h"
#include "postproc/peers/job_rule.h"
#include "postproc/peers/peer_overlap.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::node_pair {
namespace {

constexpr std::size_t kMostShown = 4;      // differences of each kind
constexpr std::size_t kLongestValue = 80;  // longest setting, in characters

struct Pair {
  const NodeProfile* first = nullptr;
  const NodeProfile* second = nullptr;
};

/// Groups of which two nodes can be held against each other. One that lived shorter was left out.
std::vector<Pair> pairs_in(const JobRuleContext& context) {
  std::vector<Pair> pairs;
  for (const PeerGroup& group : context.comparison.groups) {
    std::vector<const NodeProfile*> members;
    for (const NodeProfile* node : context.nodes) {
      if (std::binary_search(group.nodes.begin(), group.nodes.end(), node->node)) members.push_back(node);
    }
    if (group.compared || members.size() < 2) continue;
    std::vector<std::size_t> all(members.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const PeerOverlap overlap = overlap_of(members, all);
    if (overlap.members.size() == 2) pairs.push_back({members[overlap.members[0]], members[overlap.members[1]]});
  }
  return pairs;
}

/// One of each node; their values are missing.
std::array<Evidence, 2> evidence_of(const Pair& pair, std::string_view metric, const std::string& feature,
                                    TimeSpan job) {
  std::array<Evidence, 2> both;
  for (std::size_t i = 0; i < both.size(); ++i) {
    both[i].metric = metric;
    both[i].node = (i == 0 ? pair.first : pair.second)->node;
    both[i].feature = feature;
    both[i].span = job;
    both[i].detectors = {Method::peer_comparison};
  }
  return both;
}

void add_evidence(const Pair& pair, const PairDifference& one, TimeSpan job, Finding& finding) {
  const std::string of = one.metric->per.empty() ? "mean" : fmt::format("per {}", one.metric->per);
  auto both = evidence_of(pair, one.metric->metric, of + ", expected as on the other node", job);
  both[0].observed = both[1].expected = four_digits(one.first);
  both[1].observed = both[0].expected = four_digits(one.second);
  both[0].unit = both[1].unit = one.unit;
  finding.evidence.insert(finding.evidence.end(), both.begin(), both.end());
}

void add_evidence(const Pair& pair, const PairSetting& one, TimeSpan job, Finding& finding) {
  auto both = evidence_of(pair, one.key, "value", job);
  both[0].instance = shortened(one.first, kLongestValue);
  both[1].instance = shortened(one.second, kLongestValue);
  finding.evidence.insert(finding.evidence.end(), both.begin(), both.end());
}

bool found_on(std::span<const Finding> found, std::string_view rule, const std::string& node) {
  return std::any_of(found.begin(), found.end(), [&](const Finding& finding) {
    return finding.id == rule && finding.severity >= Severity::notice &&
           std::find(finding.nodes.begin(), finding.nodes.end(), node) != finding.nodes.end();
  });
}

/// The node that rules name for all that is explained; "" where they name none, or both.
std::string named_by_rules(const Pair& pair, const std::vector<PairDifference>& differences,
                           std::span<const Finding> found, std::set<std::string>& rules) {
  std::set<std::string> named;
  for (const PairDifference& one : differences) {
    const std::string& worse = one.first_is_worse ? pair.first->node : pair.second->node;
    const std::string& better = one.first_is_worse ? pair.second->node : pair.first->node;
    std::string_view rest = one.metric->rules;
    for (std::string_view rule = next_word(rest); !rule.empty(); rule = next_word(rest)) {
      if (!found_on(found, rule, worse) || found_on(found, rule, better)) continue;
      named.insert(worse);
      rules.emplace(rule);
    }
  }
  return named.size() == 1 ? *named.begin() : "";
}

Finding describe(const Pair& pair, const std::vector<PairDifference>& differences,
                 const std::vector<PairSetting>& settings, const JobRuleContext& context, const EffectiveRule& rule) {
  const std::string& first = pair.first->node;
  const std::string& second = pair.second->node;
  std::set<std::string> rules;
  const std::string named = named_by_rules(pair, differences, context.found, rules);
  Finding finding = rule.finding(named.empty() ? std::vector{first, second} : std::vector{named});
  finding.intervals = {context.job};
  finding.confidence = named.empty() ? Confidence::possible : Confidence::likely;
  finding.severity = differences.empty() ? Severity::info : Severity::notice;
  finding.impact.how = "not known: the nodes differ, but no other node was seen waiting";
  std::vector<std::string> words;
  for (const PairDifference& one : differences) {
    words.push_back(fmt::format("{} ({} on {}, {} on {})", compared_words(one.metric->metric),
                                quantity(one.first, one.unit), first, quantity(one.second, one.unit), second));
    if (words.size() > kMostShown) continue;
    add_evidence(pair, one, context.job, finding);
  }
  std::vector<std::string> set;
  for (std::size_t i = 0; i < std::min(settings.size(), kMostShown); ++i) {
    const PairSetting& one = settings[i];
    set.push_back(fmt::format("{} is {} on {} and {} on {}", one.key, shortened(one.first, kLongestValue), first,
                              shortened(one.second, kLongestValue), second));
    add_evidence(pair, one, context.job, finding);
  }
  if (settings.size() > kMostShown) {
    const std::size_t more = settings.size() - kMostShown;
    set.push_back(fmt::format("{} more {}", more, more == 1 ? "setting differs" : "settings differ"));
  }
  if (!differences.empty()) {
    finding.subsystem = differences.front().subsystem;
    finding.sentence = fmt::format("{} and {} do the same work and differed throughout the job in {}. ", first, second,
                                   listed(words, kMostShown, "; "));
    finding.sentence += named.empty() ? std::string(kNoMajority)
                                      : fmt::format("{} is the abnormal node: {} was found there.", named,
                                                    joined(std::vector<std::string>(rules.begin(), rules.end()), ", "));
  }
  if (!set.empty()) {
    finding.sentence +=
        fmt::format("{}They are configured differently: {}.", differences.empty() ? "" : " ", joined(set, "; "));
  }
  finding.runner_up = {"", "a rank with more work: amounts of work, of memory and of storage were not compared"};
  return finding;
}

std::vector<JobFinding> check(const JobRuleContext& context, const EffectiveRule& rule) {
  std::vector<JobFinding> findings;
  for (const Pair& pair : pairs_in(context)) {
    auto differences = pair_differences(*pair.first, *pair.second, rule);
    const auto settings = pair_settings(*pair.first, *pair.second);
    std::erase_if(differences, [&settings](const PairDifference& one) {
      return std::any_of(settings.begin(), settings.end(),
                         [&one](const PairSetting& setting) { return setting.key == one.metric->model; });
    });
    if (differences.empty() && settings.empty()) continue;
    findings.push_back(describe(pair, differences, settings, context, rule));
  }
  return findings;
}

const RegisteredJobRule kPair(
    check,
    {
        .id = "node.pair_differs",
        .title = "The two nodes of the job are in different states",
        .looks_for = "Two nodes, without a third node for comparison, that do the same work but differ "
                     "throughout the job in clocks, stalls, retransmissions, disk latency or settings.",
        .kind = FindingKind::peer,
        .states = Stated::difference,
        .subsystem = Subsystem::cpu,
        .order = 500,
        .look_alikes = "a rank with another role,a node with less to do,another model of machine",
        .proof = Proof::test_double,
        .whole_machine = true,
        .thresholds = {{"min_seconds", 60, "s", "shortest time in which both nodes were measured"},
                       {"min_time", 0.75, "ratio", "least part of the job in which they differ"}},
        .user_remedy = {{"#SBATCH --exclude={nodes}   # in one run: if it is faster, one of these nodes is the cause",
                         "job"}},
        .admin_remedy = {"reveal check   # on {nodes}: clock settings, memory errors, GPUs, links, full file systems",
                         "ps -eo pid,user,psr,pcpu,comm --sort=-pcpu | head -15   # on {nodes}: leftover processes",
                         "Check on {nodes}: power limits, cooling, cables, disks."},
        .verify = {.command = "reveal show NEXT_RUN",
                   .where = "after a run on one of the two nodes and a third one",
                   .expected = "this finding only where the abnormal node took part"},
        .sources = {"https://arxiv.org/abs/2510.26008"},
    });

}  // namespace
}  // namespace reveal::rule::node_pair
