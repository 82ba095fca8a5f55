#include "postproc/peers/peer_statistic.h"

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/moderated_t.h"
#include "postproc/numerics/present_values.h"

namespace reveal {
namespace {

constexpr double kLeastSpread = 1e-4;  // variance of a channel between equal nodes: one percent, squared
constexpr double kStaticPriorDf = 4;
constexpr double kLeastMeasured = 2.0 / 3;  // share of a group's nodes, for a channel to be compared
constexpr std::size_t kAhead = 8;           // nodes
constexpr double kNextToNothing = 0.1;      // activity: a tenth of the unit's floor

/// Sample variance of `n` values from their sum and sum of squares, about any origin near them.
double sample_variance(double sum, double squares, double n) {
  return std::max(0.0, (squares - sum * sum / n) / (n - 1));
}

}  // namespace

bool ColumnTest::run(std::size_t column, std::vector<PeerTest>& tests, std::vector<double>& variances) {
  if (!collect(column)) return false;
  const std::size_t count = measured_.size();
  std::vector<double> sorted = level_;
  std::sort(sorted.begin(), sorted.end());
  const double centre = sorted[count / 2];
  double sum = 0;
  double squares = 0;
  for (const double level : level_) {
    sum += level - centre;
    squares += (level - centre) * (level - centre);
  }
  const auto n = static_cast<double>(count);
  const double variance = sample_variance(sum, squares, n);
  if (variance > 0) variances.push_back(variance);
  for (std::size_t i = 0; i < count; ++i) {
    const double own = level_[i] - centre;
    const double expected = median_without(sorted, level_[i]);
    tests.push_back({.member = measured_[i],
                     .column = column,
                     .effect = level_[i] - expected,
                     .variance = count < 3 ? 0 : sample_variance(sum - own, squares - own * own, n - 1),
                     .se2 = se2_[i],
                     .observed = mean_[i],
                     .expected = group_.table.columns[column].floor * std::expm1(expected),
                     .constant = constant_,
                     .nodes = count});
  }
  return true;
}

double ColumnTest::share_at_top(std::size_t column, std::size_t member) {
  if (!collect(column)) return 0;
  std::size_t top = 0;
  std::size_t all = 0;
  for (std::size_t b = 0; b < group_.overlap.blocks(); ++b) {
    double most = -1;
    std::size_t who = 0;
    for (std::size_t i = 0; i < measured_.size(); ++i) {
      if (blocks_[i][b] > most) {
        most = blocks_[i][b];
        who = measured_[i];
      }
    }
    if (most < 0) continue;
    ++all;
    top += who == member ? 1 : 0;
  }
  return all == 0 ? 0 : static_cast<double>(top) / static_cast<double>(all);
}

bool ColumnTest::collect(std::size_t column) {
  const ProfileTable& table = group_.table;
  const PeerOverlap& overlap = group_.overlap;
  const double floor = table.columns[column].floor;
  measured_.clear();
  level_.clear();
  mean_.clear();
  constant_ = true;
  blocks_.resize(overlap.members.size());
  const auto channel_of = [&](std::size_t m) {
    return table.channels[overlap.members[m] * table.columns.size() + column];
  };
  for (std::size_t m = 0; m < overlap.members.size(); ++m) {
    const std::size_t node = overlap.members[m];
    // A column of thousands of nodes is all over the memory.
    if (m + 2 * kAhead < overlap.members.size()) __builtin_prefetch(channel_of(m + 2 * kAhead));
    const ProfileChannel* next = m + kAhead < overlap.members.size() ? channel_of(m + kAhead) : nullptr;
    if (next != nullptr) __builtin_prefetch(next->blocks.data());
    if (std::isnan(table.row(node)[column])) continue;
    const ProfileChannel* channel = channel_of(m);
    std::vector<double>& blocks = blocks_[measured_.size()];
    fold(*group_.nodes[node], channel, overlap, blocks);
    const auto present = std::count_if(blocks.begin(), blocks.end(), [](double value) { return !std::isnan(value); });
    if (static_cast<std::size_t>(present) < std::max(kLeastBlocks - 1, overlap.blocks() / 2)) continue;
    constant_ = constant_ && (channel == nullptr || channel->blocks.empty());
    measured_.push_back(m);
    mean_.push_back(mean_of(blocks));
    level_.push_back(activity_of(mean_.back(), floor));
  }
  if (measured_.size() < 2 ||
      static_cast<double>(measured_.size()) < kLeastMeasured * static_cast<double>(overlap.members.size())) {
    return false;
  }
  // Values that nodes carried over from earlier jobs differ by nature, unless they are settings.
  if (table.columns[column].carried_over && !constant_) return false;
  if (*std::max_element(level_.begin(), level_.end()) < kNextToNothing) return false;
  standard_errors(column);
  return true;
}

/// How far a node's whole-job mean would wander if the job ran again, as its blocks wander about the mean of the whole
/// group: phases of the job are no noise.
void ColumnTest::standard_errors(std::size_t column) {
  const double floor = group_.table.columns[column].floor;
  const std::size_t nodes = measured_.size();
  se2_.assign(nodes, 0);
  if (constant_) return;
  std::vector<double> sums(nodes, 0.0);
  std::vector<double> squares(nodes, 0.0);
  std::vector<double> counts(nodes, 0.0);
  std::vector<double> levels(nodes);
  for (std::size_t b = 0; b < group_.overlap.blocks(); ++b) {
    std::size_t present = 0;
    for (std::size_t i = 0; i < nodes; ++i) {
      const double value = blocks_[i][b];
      levels[i] = std::isnan(value) ? kNaN : activity_of(value, floor);
      present += std::isnan(value) ? 0 : 1;
    }
    if (present < 2) continue;
    const double job = median_of(levels);
    for (std::size_t i = 0; i < nodes; ++i) {
      if (std::isnan(levels[i])) continue;
      const double away = levels[i] - job;
      sums[i] += away;
      squares[i] += away * away;
      counts[i] += 1;
    }
  }
  for (std::size_t i = 0; i < nodes; ++i) {
    if (counts[i] >= 2) se2_[i] = sample_variance(sums[i], squares[i], counts[i]) / counts[i];
  }
}

bool may_be_discovery(const PeerTest& test) {
  constexpr double kLeastT = 1.95;  // a smaller one has a p above 5 %, whatever the degrees of freedom
  const auto others = static_cast<double>(test.nodes - 1);
  const double variance = least_moderated(test.variance, others - 1, kLeastSpread);
  return std::abs(t_against_median(test.effect, variance, others, test.se2)) >= kLeastT;
}

void test_peers(std::vector<PeerTest>& tests, std::span<const double> variances, std::size_t members) {
  const VariancePrior prior = variance_prior(variances, static_cast<double>(members - 1), kLeastSpread);
  for (PeerTest& test : tests) {
    const auto others = static_cast<double>(test.nodes - 1);
    // A setting has no noise of its own to be judged by; the usual spread between nodes must do.
    const VariancePrior used = test.constant ? VariancePrior{prior.s2, kStaticPriorDf} : prior;
    test.t = t_against_median(test.effect, used.moderated(test.variance, others - 1), others, test.se2);
    test.p = two_sided_p(test.t, others - 1 + used.df);
  }
}

double percent_of(double observed, double expected, double floor) {
  return 100 * (observed - expected) / std::max(std::abs(expected), floor);
}

}  // namespace reveal
