#include "postproc/analysis/grouped_coverage.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace reveal {
namespace {

constexpr double kNearlyAll = 0.95;  // share of a node's samples

double share_present(const NodeCoverage& one) {
  return one.samples_expected && *one.samples_expected > 0 ? one.samples_present.value_or(0) / *one.samples_expected
                                                           : 0;
}

/// Equal texts: equal coverage.
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

}  // namespace

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

}  // namespace reveal
