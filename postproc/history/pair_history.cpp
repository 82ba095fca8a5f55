#include "postproc/history/pair_history.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "postproc/history/history.h"
#include "postproc/numerics/median.h"
#include "postproc/peers/node_pair.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Levels are the same if they differ by less than this part of the difference between the nodes.
constexpr double kSameLevel = 0.25;

struct UsualLevel {
  double level = 0;
  std::size_t runs = 0;  // that measured it
};

/// The level of earlier runs; nothing if too few measured it, or if they differ among themselves as much as the nodes
/// do.
std::optional<UsualLevel> usual_level(const PairMetric& metric, double difference,
                                      const std::vector<const RunRecord*>& baseline) {
  std::vector<double> levels;
  for (const RunRecord* run : baseline) {
    const double level = value_of(metric, [run](std::string_view name) { return run->value_of(name); });
    if (!std::isnan(level)) levels.push_back(level);
  }
  if (levels.size() < kLeastRuns) return std::nullopt;
  const double usual = median_of(levels);
  const bool steady = std::all_of(levels.begin(), levels.end(),
                                  [&](double level) { return std::abs(level - usual) <= kSameLevel * difference; });
  return steady ? std::optional(UsualLevel{usual, levels.size()}) : std::nullopt;
}

void name_unusual_node(const std::vector<const RunRecord*>& baseline, Finding& finding) {
  std::set<std::string> unusual;
  std::vector<std::string> words;
  std::size_t runs = baseline.size();
  for (std::size_t i = 0; i + 1 < finding.evidence.size(); i += 2) {
    Evidence& first = finding.evidence[i];
    Evidence& second = finding.evidence[i + 1];
    const PairMetric* metric = pair_metric(first.metric);
    if (metric == nullptr || !first.observed || !second.observed) continue;
    const double difference = std::abs(*first.observed - *second.observed);
    const auto usual = usual_level(*metric, difference, baseline);
    if (!usual) continue;
    const bool first_is_usual = std::abs(*first.observed - usual->level) <= kSameLevel * difference;
    const bool second_is_usual = std::abs(*second.observed - usual->level) <= kSameLevel * difference;
    if (first_is_usual == second_is_usual) continue;
    unusual.insert(first_is_usual ? second.node : first.node);
    words.push_back(fmt::format("{} of {}", compared_words(metric->metric), quantity(usual->level, first.unit)));
    runs = std::min(runs, usual->runs);
    for (Evidence* one : {&first, &second}) {
      one->expected = four_digits(usual->level);
      one->feature = "mean, expected as in earlier runs";
    }
  }
  if (unusual.size() != 1) return;
  finding.nodes = {*unusual.begin()};
  finding.confidence = Confidence::likely;
  const std::string verdict = fmt::format("{} earlier runs had a {}: {} is the abnormal node.", runs,
                                          joined(words, " and a "), finding.nodes.front());
  if (const std::size_t at = finding.sentence.find(kNoMajority); at != std::string::npos) {
    finding.sentence.replace(at, kNoMajority.size(), verdict);
  }
}

}  // namespace

void name_unusual_nodes(const RunRecord& run, const std::vector<RunRecord>& earlier, std::vector<Finding>& findings) {
  const bool any =
      std::any_of(findings.begin(), findings.end(), [](const Finding& one) { return one.id == kPairRule; });
  if (!any) return;
  const std::vector<const RunRecord*> baseline = baseline_among(run, runs_before(run, earlier));
  for (Finding& finding : findings) {
    if (finding.id == kPairRule && finding.nodes.size() == 2) name_unusual_node(baseline, finding);
  }
}

}  // namespace reveal
