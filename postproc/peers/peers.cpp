#include "postproc/peers/peers.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/effective_rule.h"
#include "postproc/peers/hardware_kinds.h"
#include "postproc/peers/node_pair.h"
#include "postproc/peers/peer_deviations.h"
#include "postproc/peers/peer_groups.h"
#include "postproc/peers/peer_statistic.h"
#include "postproc/peers/straggler.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr double kMajority = 0.6;
constexpr std::size_t kMostFacts = 40;
constexpr std::size_t kLongReason = 300;

/// A few are enough to understand.
std::string who_was_left_out(const std::vector<const NodeProfile*>& nodes, const PeerOverlap& overlap) {
  std::string text;
  for (const std::size_t node : overlap.left_out) {
    text += fmt::format("{}{} was recorded for only {} and was left out", text.empty() ? "" : "; ", nodes[node]->node,
                        duration(nodes[node]->seconds()));
    if (text.size() > kLongReason) break;
  }
  return text;
}

/// Removes tests from `begin` on that cannot be discoveries: thousands of nodes would have millions of them.
void drop_chance(std::vector<PeerTest>& tests, std::size_t begin) {
  tests.erase(std::remove_if(tests.begin() + static_cast<std::ptrdiff_t>(begin), tests.end(),
                             [](const PeerTest& test) { return !may_be_discovery(test); }),
              tests.end());
}

class Comparer {
 public:
  Comparer(const std::vector<const NodeProfile*>& nodes, const EffectiveRule& straggling)
      : nodes_(nodes), straggling_(straggling), table_(tabulate(nodes)) {}

  PeerComparison run(double least_percent) {
    out_.reason.clear();
    for (const auto& kind : hardware_kinds(nodes_)) {
      straggler_sought_ = false;
      for (const auto& members : find_peer_groups(table_, kind)) out_.groups.push_back(compare_group(members));
    }
    std::stable_sort(out_.groups.begin(), out_.groups.end(),
                     [](const PeerGroup& a, const PeerGroup& b) { return a.nodes.size() > b.nodes.size(); });
    out_.deviations = deviations_of(tests_, out_.tests, table_, nodes_, least_percent);
    out_.cells = cells_of(out_.deviations);  // the map has seen all of them; the list names the strongest
    out_.deviations_left_out = keep_strongest(out_.deviations);
    return std::move(out_);
  }

 private:
  PeerGroup compare_group(const std::vector<std::size_t>& members) {
    PeerGroup group;
    for (const std::size_t node : members) group.nodes.push_back(nodes_[node]->node);
    std::sort(group.nodes.begin(), group.nodes.end());
    if (members.size() == 1) {
      group.reason = "no other node does the same kind of work, so it has no peers";
      return group;
    }
    const PeerOverlap overlap = overlap_of(nodes_, members);
    group.seconds = overlap.seconds;
    group.reason = who_was_left_out(nodes_, overlap);
    if (overlap.members.size() < 2 || overlap.blocks() < kLeastBlocks) {
      group.reason += fmt::format("{}the nodes have only {} in common", group.reason.empty() ? "" : "; ",
                                  duration(overlap.seconds));
      return group;
    }
    const GroupData data{nodes_, table_, overlap};
    std::vector<PeerTest> tests;
    std::size_t all = 0;
    std::vector<double> variances;
    ColumnTest column_test(data);
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      const std::size_t before = tests.size();
      if (!column_test.run(c, tests, variances)) continue;
      ++group.channels;
      all += tests.size() - before;
      if (overlap.members.size() >= kLeastOfKind && table_.columns[c].name != kOwnTime) drop_chance(tests, before);
    }
    if (overlap.members.size() < kLeastOfKind) {
      const std::string differ = pair_sentence(tests, table_);
      group.reason = fmt::format("too few to know which of them differs over the whole job{}{}",
                                 differ.empty() ? "" : "; ", differ);
      return group;
    }
    group.compared = true;
    test_peers(tests, variances, overlap.members.size());
    if (!straggler_sought_) seek_straggler(data, tests);
    out_.tests += all;
    for (PeerTest& test : tests) {
      if (test.p > kPeerDiscoveryRate) continue;
      test.member = overlap.members[test.member];
      tests_.push_back(test);
    }
    return group;
  }

  /// In the largest group of each kind of nodes; the first that is found counts, else the reason of the largest kind.
  void seek_straggler(const GroupData& data, const std::vector<PeerTest>& tests) {
    straggler_sought_ = true;
    if (!out_.straggler.node.empty()) return;
    Straggler found = find_straggler(data, tests, straggling_);
    if (out_.straggler.signal.empty() || !found.node.empty()) out_.straggler = std::move(found);
  }

  const std::vector<const NodeProfile*>& nodes_;
  const EffectiveRule& straggling_;
  ProfileTable table_;
  PeerComparison out_;
  bool straggler_sought_ = false;
  std::vector<PeerTest> tests_;  // tests of all roles that may be discoveries; members are indices into nodes_
};

template <class Value>
using ByText = std::unordered_map<SharedText, Value, SharedText::Hash>;
using NodesByValue = std::map<SharedText, std::vector<std::size_t>>;

/// Few facts have more than one value: only these are sorted, because thousands of nodes have hundreds of facts each.
std::map<SharedText, NodesByValue> facts_that_differ(const std::vector<const NodeProfile*>& nodes) {
  ByText<ByText<std::vector<std::size_t>>> values;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const auto& [key, value] : nodes[n]->facts) values[key][value].push_back(n);
  }
  std::map<SharedText, NodesByValue> differing;
  for (auto& [key, by_value] : values) {
    if (by_value.size() < 2) continue;
    differing.emplace(key,
                      NodesByValue(std::make_move_iterator(by_value.begin()), std::make_move_iterator(by_value.end())));
  }
  return differing;
}

/// The same for each kind of nodes.
std::vector<NodesByValue> by_kind(const NodesByValue& all, const std::vector<std::size_t>& kind_of_node,
                                  std::size_t kinds) {
  std::vector<NodesByValue> of_kind(kinds);
  for (const auto& [value, with] : all) {
    for (const std::size_t n : with) of_kind[kind_of_node[n]][value].push_back(n);
  }
  return of_kind;
}

/// Values of memory that count as equal, as the most frequent of them: those of the most nodes.
NodesByValue with_memory_joined(NodesByValue by_value) {
  std::vector<std::pair<std::int64_t, NodesByValue::iterator>> sizes;
  for (auto at = by_value.begin(); at != by_value.end(); ++at) {
    if (const auto size = parse_int(at->first)) sizes.emplace_back(*size, at);
  }
  std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t begin = 0;
  std::size_t nodes = 0;
  std::size_t most = 0;
  auto joined = std::span(sizes).first(0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && !is_same_setting(kMemorySetting, sizes[i - 1].second->first, sizes[i].second->first)) {
      begin = i;
      nodes = 0;
    }
    nodes += sizes[i].second->second.size();
    if (nodes <= most) continue;
    most = nodes;
    joined = std::span(sizes).subspan(begin, i + 1 - begin);
  }
  if (joined.empty()) return by_value;
  const auto usual = std::max_element(joined.begin(), joined.end(), [](const auto& a, const auto& b) {
                       return a.second->second.size() < b.second->second.size();
                     })->second;
  for (const auto& [size, at] : joined) {
    if (at == usual) continue;
    usual->second.insert(usual->second.end(), at->second.begin(), at->second.end());
    by_value.erase(at);
  }
  std::sort(usual->second.begin(), usual->second.end());
  return by_value;
}

/// Adds the values that are not the most frequent one, if at least so many nodes have that.
void add_differences(const std::vector<const NodeProfile*>& nodes, const SharedText& key, const NodesByValue& all,
                     double least, std::vector<FactDifference>& differences) {
  const NodesByValue joined = key == kMemorySetting ? with_memory_joined(all) : NodesByValue();
  const NodesByValue& by_value = joined.empty() ? all : joined;
  const auto usual = std::max_element(by_value.begin(), by_value.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (usual == by_value.end() || static_cast<double>(usual->second.size()) < least) return;
  for (auto at = by_value.begin(); at != by_value.end(); ++at) {
    if (at == usual || differences.size() >= kMostFacts) continue;
    FactDifference difference{key, {}, at->first, usual->first};
    for (const std::size_t n : at->second) difference.nodes.push_back(nodes[n]->node);
    differences.push_back(std::move(difference));
  }
}

}  // namespace

std::vector<FactDifference> fact_differences(const std::vector<const NodeProfile*>& nodes) {
  std::vector<FactDifference> differences;
  if (nodes.size() < kLeastOfKind) return differences;
  const auto kinds = hardware_kinds(nodes);
  std::vector<std::size_t> kind_of_node(nodes.size(), 0);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    for (const std::size_t n : kinds[kind]) kind_of_node[n] = kind;
  }
  const auto most_of = [](std::size_t count) { return kMajority * static_cast<double>(count); };
  const auto differing = facts_that_differ(nodes);
  for (const auto& [key, values] : differing) {
    if (kinds.size() > 1 && names_the_kind(key)) continue;
    if (kinds.size() == 1 || !follows_the_kind(key)) {
      add_differences(nodes, key, values, most_of(nodes.size()), differences);
      continue;
    }
    const auto of_kind = by_kind(values, kind_of_node, kinds.size());
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      add_differences(nodes, key, of_kind[kind], most_of(kinds[kind].size()), differences);
    }
  }
  // Last, because there may be many; no kind need be the usual one.
  for (const auto& [key, values] : differing) {
    if (kinds.size() > 1 && names_the_kind(key)) add_differences(nodes, key, values, 0, differences);
  }
  return differences;
}

DifferingNodes nodes_that_differ(const std::vector<PeerDeviation>& deviations, double least_metrics) {
  DifferingNodes nodes;
  for (const PeerDeviation& deviation : deviations) {
    if (deviation.telling) nodes[deviation.node].push_back(&deviation);
  }
  std::erase_if(nodes, [least_metrics](const auto& node) {
    std::set<std::string> metrics;
    for (const PeerDeviation* deviation : node.second) metrics.insert(base_metric(deviation->channel));
    return static_cast<double>(metrics.size()) < least_metrics;
  });
  return nodes;
}

namespace {

std::string verb_of(const std::vector<std::string>& nodes, std::string_view singular, std::string_view plural) {
  return fmt::format("{} {}", node_list(nodes), nodes.size() == 1 ? singular : plural);
}

/// The nodes that differ, as named in the findings, and the settings in which they differ.
std::string difference_words(const PeerComparison& comparison, double least_metrics) {
  std::vector<std::string> odd;
  const DifferingNodes differing = nodes_that_differ(comparison.deviations, least_metrics);
  odd.reserve(differing.size());
  for (const auto& [node, deviations] : differing) odd.push_back(node);
  const bool telling = std::any_of(comparison.deviations.begin(), comparison.deviations.end(),
                                   [](const PeerDeviation& deviation) { return deviation.telling; });
  std::string text = !odd.empty()                    ? verb_of(odd, "differs", "differ")
                     : telling                       ? "none differs in more than single metrics"
                     : comparison.deviations.empty() ? "none differs"
                                                     : "they differ only in the amount of work";
  std::set<std::string> set;
  for (const FactDifference& fact : comparison.facts) set.insert(fact.nodes.begin(), fact.nodes.end());
  if (!set.empty()) {
    text += "; " + verb_of({set.begin(), set.end()}, "has other settings", "have other settings");
  }
  return text;
}

std::string sentence_of(const PeerComparison& comparison, double least_metrics) {
  const bool pair = comparison.groups.size() == 1 && comparison.groups.front().nodes.size() == 2 &&
                    comparison.groups.front().channels > 0;
  if (!comparison.compared) return (pair ? "2 nodes: " : "not compared with each other: ") + comparison.reason;
  std::size_t compared = 0;
  std::size_t channels = 0;
  std::size_t lone = 0;
  for (const PeerGroup& group : comparison.groups) {
    if (group.compared) compared += group.nodes.size();
    if (group.compared) channels = std::max(channels, group.channels);
    if (group.nodes.size() == 1) ++lone;
  }
  std::string text = fmt::format("{} nodes that do the same work compared in {}: ", compared,
                                 counted(static_cast<double>(channels), "channel"));
  text += difference_words(comparison, least_metrics);
  if (!comparison.straggler.node.empty()) text += fmt::format("; the others wait for {}", comparison.straggler.node);
  if (lone > 0) text += fmt::format("; {} {} in another group, without peers", lone, lone == 1 ? "is" : "are");
  return text;
}

}  // namespace

PeerComparison compare_peers(const std::vector<const NodeProfile*>& nodes, const AnalysisSettings& settings) {
  PeerComparison comparison;
  if (nodes.size() < 2) {
    comparison.reason = nodes.empty() ? "no node has a profile for the comparison" : "a single node has no peers";
    return comparison;
  }
  const EffectiveRule straggling("node.straggler", settings);
  const EffectiveRule differing("node.differs", settings);
  comparison = Comparer(nodes, straggling).run(differing.threshold("min_percent"));
  comparison.facts = fact_differences(nodes);
  comparison.compared = std::any_of(comparison.groups.begin(), comparison.groups.end(),
                                    [](const PeerGroup& group) { return group.compared; });
  if (!comparison.compared) {
    comparison.reason = comparison.groups.empty() ? "no node was measured" : comparison.groups.front().reason;
  }
  comparison.sentence = sentence_of(comparison, differing.threshold("min_metrics"));
  return comparison;
}

const PeerGroup* group_of(const PeerComparison& comparison, const std::string& node) {
  for (const PeerGroup& group : comparison.groups) {
    if (std::binary_search(group.nodes.begin(), group.nodes.end(), node)) return &group;
  }
  return nullptr;
}

}  // namespace reveal
