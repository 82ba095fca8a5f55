#include "postproc/report/narrowed.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

template <typename Item, typename Names>
void keep_node(std::vector<Item>& items, const std::string& node, Names nodes_of) {
  std::erase_if(items, [&](const Item& item) {
    const std::vector<std::string> nodes = nodes_of(item);
    return std::find(nodes.begin(), nodes.end(), node) == nodes.end();
  });
}

void keep_comparison_of(const std::string& node, PeerComparison& comparison) {
  const auto single = [](const auto& item) { return std::vector<std::string>{item.node}; };
  keep_node(comparison.deviations, node, single);
  keep_node(comparison.cells, node, single);
  keep_node(comparison.facts, node, [](const FactDifference& fact) { return fact.nodes; });
  comparison.sentence.clear();  // it names the nodes that differ
  if (comparison.straggler.node != node) comparison.straggler = {.reason = comparison.straggler.reason};
}

void say_that_others_are_meant(const std::string& node, Report& report) {
  const std::string& primary = report.verdict.primary;
  const bool here = std::any_of(report.findings.begin(), report.findings.end(),
                                [&](const Finding& finding) { return finding.id == primary; });
  if (primary.empty() || here) return;
  report.verdict.sentence = fmt::format("Not about {}: {}", node, report.verdict.sentence);
}

}  // namespace

void narrow_to_node(Report& report, const std::string& node) {
  if (std::find(report.job.nodes.begin(), report.job.nodes.end(), node) == report.job.nodes.end()) {
    const auto near = nearest(node, report.job.nodes);
    throw Error("no node \"" + node + "\" in this job" + (near ? "; did you mean \"" + *near + "\"?" : ""));
  }
  const auto listed = [](const auto& item) { return item.nodes; };
  const auto single = [](const auto& item) { return std::vector<std::string>{item.node}; };
  keep_node(report.findings, node, listed);
  for (Finding& finding : report.findings) keep_node(finding.interventions, node, single);
  keep_node(report.coverage, node, listed);
  keep_node(report.episodes, node, single);
  keep_node(report.overhead, node, single);
  keep_node(report.faster, node, single);
  keep_node(report.totals, node, single);
  keep_node(report.timeline, node, single);
  keep_node(report.locality, node, single);
  keep_node(report.python, node, single);
  keep_node(report.phases, node, listed);
  for (NodePhases& phases : report.phases) phases.nodes = {node};
  for (MetricAcrossNodes& metric : report.across) keep_node(metric.lines, node, single);
  report.anomalous.clear();  // it sums over all nodes
  std::erase_if(report.marks, [&](const ReportMark& mark) { return !mark.node.empty() && mark.node != node; });
  keep_comparison_of(node, report.comparison);
  say_that_others_are_meant(node, report);
}

void narrow_to_finding(Report& report, const std::string& id) {
  std::vector<std::string> known;
  for (const Finding& finding : report.findings) known.push_back(finding.id);
  std::erase_if(report.findings, [&](const Finding& finding) { return finding.id != id && finding.fingerprint != id; });
  if (!report.findings.empty()) return;
  const auto near = nearest(id, known);
  throw Error("no finding \"" + id + "\" in this report" + (near ? "; did you mean \"" + *near + "\"?" : ""));
}

}  // namespace reveal
