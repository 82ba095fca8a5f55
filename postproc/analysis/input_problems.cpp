#include "postproc/analysis/input_problems.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/node_list.h"
#include "postproc/words/quantity.h"

namespace reveal {

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

void note_missing_nodes(const std::vector<NodeSummary>& summaries, const std::vector<std::string>& expected_nodes,
                        const std::vector<UnreadFolder>& unread, std::vector<InputProblem>& problems) {
  std::set<std::string> present;
  std::set<std::string> expected(expected_nodes.begin(), expected_nodes.end());
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

}  // namespace reveal
