#include "postproc/peers/straggler.h"

#include <algorithm>

#include "postproc/numerics/moderated_t.h"

namespace reveal {
namespace {

constexpr double kStragglerP = 0.01;  // for all nodes together
/// The spread of this one signal between equal nodes, which is known better than an estimate from hundreds of counters.
constexpr VariancePrior kOwnTimePrior{0.0025, 4};  // five percent, squared

}  // namespace

Straggler find_straggler(const GroupData& group, const std::vector<PeerTest>& tests, const EffectiveRule& rule) {
  Straggler straggler;
  straggler.signal = kOwnTime;
  const auto& columns = group.table.columns;
  const auto column =
      std::find_if(columns.begin(), columns.end(), [](const auto& known) { return known.name == kOwnTime; });
  const auto c = static_cast<std::size_t>(column - columns.begin());
  const PeerTest* longest = nullptr;
  for (const PeerTest& test : tests) {
    if (test.column == c && (longest == nullptr || test.observed > longest->observed)) longest = &test;
  }
  if (longest == nullptr) {
    straggler.reason = "not measured: run time and waiting time of the ranks (job.cpu_time, job.wait_time)";
    return straggler;
  }
  const auto others = static_cast<double>(longest->nodes - 1);
  const double variance = kOwnTimePrior.moderated(longest->variance, others - 1);
  const double t = t_against_median(longest->effect, variance, others, longest->se2);
  const double p = two_sided_p(t, others - 1 + kOwnTimePrior.df) * static_cast<double>(longest->nodes);
  const double percent = percent_of(longest->observed, longest->expected, column->floor);
  if (percent < rule.threshold("min_percent") || longest->observed - longest->expected < column->floor ||
      p > kStragglerP || ColumnTest(group).share_at_top(c, longest->member) < rule.threshold("min_time_at_top")) {
    straggler.reason =
        "no node waits less than the others throughout the job: either no node is slower, or the ranks poll while they "
        "wait";
    return straggler;
  }
  straggler.node = group.nodes[group.overlap.members[longest->member]]->node;
  straggler.observed = longest->observed;
  straggler.expected = longest->expected;
  straggler.percent = 100 * (longest->observed - longest->expected) / longest->observed;
  straggler.seconds = straggler.percent / 100 * group.overlap.seconds;
  return straggler;
}

}  // namespace reveal
