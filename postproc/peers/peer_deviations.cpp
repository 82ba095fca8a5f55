#include "postproc/peers/peer_deviations.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "postproc/numerics/moderated_t.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kMostListed = 200;
constexpr double kPairPercent = 30;  // with two nodes, their usual difference is unknown
constexpr double kPairErrors = 3;    // standard errors

constexpr std::string_view kStateUnits[] = {"Hz", "Cel", "W", "J/s", "percent", "s/s", "ns"};  // units

bool is_telling(const PeerDeviation& deviation, double floor) {
  // Traffic that the peers do not have at all is a task of this node: a log, a data set, a launcher's connection.
  const bool task = deviation.unit == "bytes/s" && deviation.expected < floor;
  return !task && fact_of(base_metric(deviation.channel), &MetricFact::peers) != PeerMeaning::work;
}

PeerDeviation deviation_of(const PeerTest& test, const ProfileTable::Column& column, const std::string& node) {
  PeerDeviation deviation{.node = node,
                          .channel = column.name,
                          .unit = column.unit,
                          .subsystem = column.subsystem,
                          .observed = test.observed,
                          .expected = test.expected,
                          .percent = percent_of(test.observed, test.expected, column.floor),
                          .t = test.t,
                          .p = test.p};
  deviation.telling = is_telling(deviation, column.floor);
  return deviation;
}

}  // namespace

std::vector<PeerDeviation> deviations_of(const std::vector<PeerTest>& tests, std::size_t all, const ProfileTable& table,
                                         const std::vector<const NodeProfile*>& nodes, double least_percent) {
  std::vector<double> p;
  p.reserve(tests.size());
  for (const PeerTest& test : tests) p.push_back(test.p);
  const double limit = discovery_limit(std::move(p), kPeerDiscoveryRate, all);
  std::vector<PeerDeviation> deviations;
  for (const PeerTest& test : tests) {
    if (test.p > limit) continue;
    const auto& column = table.columns[test.column];
    PeerDeviation deviation = deviation_of(test, column, nodes[test.member]->node);
    const bool large = std::abs(deviation.percent) >= least_percent &&
                       std::abs(deviation.observed - deviation.expected) >= column.floor;
    if (large) deviations.push_back(std::move(deviation));
  }
  std::sort(deviations.begin(), deviations.end(), [](const PeerDeviation& a, const PeerDeviation& b) {
    return a.node != b.node ? a.node < b.node : std::abs(a.t) > std::abs(b.t);
  });
  return deviations;
}

std::vector<PeerCell> cells_of(const std::vector<PeerDeviation>& deviations) {
  std::map<std::pair<std::string, Subsystem>, PeerCell> cells;
  for (const PeerDeviation& deviation : deviations) {
    PeerCell& cell = cells[{deviation.node, deviation.subsystem}];
    cell.node = deviation.node;
    cell.subsystem = deviation.subsystem;
    ++cell.channels;
    if (std::abs(deviation.percent) > std::abs(cell.percent)) cell.percent = deviation.percent;
  }
  std::vector<PeerCell> list;
  list.reserve(cells.size());
  for (auto& [key, cell] : cells) list.push_back(std::move(cell));
  return list;
}

std::size_t keep_strongest(std::vector<PeerDeviation>& deviations) {
  if (deviations.size() <= kMostListed) return 0;
  std::vector<double> strengths;
  strengths.reserve(deviations.size());
  for (const PeerDeviation& deviation : deviations) strengths.push_back(-std::abs(deviation.t));
  std::nth_element(strengths.begin(), strengths.begin() + kMostListed, strengths.end());
  const double least = -strengths[kMostListed];
  return std::erase_if(deviations, [least](const PeerDeviation& deviation) { return std::abs(deviation.t) <= least; });
}

std::string pair_sentence(const std::vector<PeerTest>& tests, const ProfileTable& table) {
  std::vector<std::pair<double, std::string>> differ;
  for (std::size_t i = 0; i + 1 < tests.size(); i += 2) {
    const PeerTest& a = tests[i];
    const PeerTest& b = tests[i + 1];
    const auto& column = table.columns[a.column];
    const double low = std::min(a.observed, b.observed);
    const double high = std::max(a.observed, b.observed);
    // Each side's blocks are all there is to judge by: a difference they reach by themselves is none.
    const double wander = kPairErrors * std::sqrt(a.se2 + b.se2);
    const double percent = percent_of(high, low, column.floor);
    if (percent < kPairPercent || high - low < column.floor || std::abs(a.effect) < wander) continue;
    if (!deviation_of(a, column, "").telling) continue;
    differ.emplace_back(percent, fmt::format("{} ({} and {})", column.name.str(), quantity(low, column.unit),
                                             quantity(high, column.unit)));
  }
  if (differ.empty()) return "";
  std::stable_sort(differ.begin(), differ.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return fmt::format("they differ in {}, most in {}", counted(static_cast<double>(differ.size()), "channel"),
                     differ.front().second);
}

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
  evidence.detectors = {Method::peer_comparison};
  evidence.score = shown_score(deviation.t);
  return evidence;
}

bool is_state(const PeerDeviation& deviation) {
  return std::find(std::begin(kStateUnits), std::end(kStateUnits), deviation.unit) != std::end(kStateUnits) ||
         deviation.channel == "job.outsider_cpu";
}

}  // namespace reveal
