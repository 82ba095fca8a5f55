#include "postproc/live/silent_nodes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "hdf5schema/basics/clocks.h"
#include "postproc/words/lists.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::int64_t kTogether = 15 * kSecond;  // rows of several nodes come by flushes, at different times
constexpr std::size_t kMostTimes = 4;

/// Nodes that were heard of for the last time at about the same time.
struct SilentGroup {
  std::int64_t since_utc_ns = 0;
  std::vector<std::string> nodes;
};

std::vector<SilentGroup> silent_groups(std::vector<HeardNode> nodes) {
  std::erase_if(nodes, [](const HeardNode& node) { return !node.silent; });
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const HeardNode& a, const HeardNode& b) { return a.heard_utc_ns < b.heard_utc_ns; });
  std::vector<SilentGroup> groups;
  for (HeardNode& node : nodes) {
    const bool joins = !groups.empty() && (groups.back().since_utc_ns == 0) == (node.heard_utc_ns == 0) &&
                       node.heard_utc_ns - groups.back().since_utc_ns <= kTogether;
    if (!joins) groups.push_back({node.heard_utc_ns, {}});
    groups.back().nodes.push_back(std::move(node.node));
  }
  return groups;
}

/// The steady clock of a node that was booted again begins at 0, and the wall clock may be set back.
bool is_later(const FollowedTrace& trace, const FollowedTrace& other) {
  return trace.newest_ns > other.newest_ns || trace.newest_utc_ns > other.newest_utc_ns;
}

}  // namespace

std::string silence_of(std::span<const HeardNode> nodes) {
  std::vector<std::string> parts;
  for (SilentGroup& group : silent_groups({nodes.begin(), nodes.end()})) {
    std::sort(group.nodes.begin(), group.nodes.end());
    parts.push_back(node_list(group.nodes) +
                    (group.since_utc_ns == 0 ? " so far" : " since " + clock_time(group.since_utc_ns)));
  }
  return parts.empty() ? "" : "nothing heard of " + listed(parts, kMostTimes, "; of ");
}

std::vector<ReplacedTrace> replaced_traces(std::span<const FollowedTrace> traces) {
  std::map<std::string_view, std::size_t> heard;  // the newest trace of each node that sends rows
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].silent) continue;
    const auto [known, is_new] = heard.try_emplace(traces[i].node, i);
    if (!is_new && traces[i].newest_ns > traces[known->second].newest_ns) known->second = i;
  }
  std::vector<ReplacedTrace> replaced;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const auto by = heard.find(traces[i].node);
    const bool is_replaced = traces[i].silent && by != heard.end() && is_later(traces[by->second], traces[i]);
    if (is_replaced) replaced.push_back({i, by->second});
  }
  return replaced;
}

std::vector<SilentNodes::Change> SilentNodes::look(std::span<const HeardNode> nodes) {
  std::vector<HeardNode> fell_silent;
  std::vector<std::string> heard_again;
  for (const HeardNode& node : nodes) {
    if (node.silent && silent_.insert(node.node).second) fell_silent.push_back(node);
    if (!node.silent && silent_.erase(node.node) > 0 && !node.ended) heard_again.push_back(node.node);
  }
  std::vector<Change> changes;
  if (!fell_silent.empty()) changes.push_back({"silent", silence_of(fell_silent)});
  std::sort(heard_again.begin(), heard_again.end());
  if (!heard_again.empty()) changes.push_back({"heard_again", "rows come again from " + node_list(heard_again)});
  return changes;
}

}  // namespace reveal
