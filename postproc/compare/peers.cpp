#include "postproc/compare/peers.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <set>
#include <span>

#include "postproc/compare/moderated_t.h"
#include "postproc/compare/roles.h"
#include "postproc/diagnose/quantity.h"
#include "postproc/diagnose/rule_in_force.h"

namespace reveal {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kDiscoveryRate = 0.05;
constexpr double kLeastSpread = 1e-4;  // variance of a channel between equal nodes: one percent, squared
constexpr double kStaticPriorDf = 4;
constexpr std::size_t kLeastNodes = 3;      // with two, either may be the odd one
constexpr std::size_t kLeastBlocks = 5;     // for a standard error
constexpr double kLeastLife = 0.5;          // of the usual one of its role
constexpr double kLeastMeasured = 2.0 / 3;  // of a role's nodes, for a channel to be compared
constexpr std::size_t kMostDeviations = 200;
constexpr double kPairPercent = 30;                // between two nodes nothing tells how much nodes differ by nature
constexpr double kStragglerP = 0.01;               // for all nodes together
constexpr VariancePrior kOwnTimePrior{0.0025, 4};  // five percent, squared
constexpr double kMajority = 0.6;
constexpr std::size_t kMostFacts = 40;

/// Say how much a node was given to do, not how well it does it: a rank that logs, loads or launches has more.
constexpr std::string_view kWork[] = {"job.processes",   "job.threads", "job.running",
                                      "process.threads", "process.rss", "job.own_time"};

struct Test {
  std::size_t member = 0;  // of the role
  std::size_t column = 0;
  double effect = 0;  // in logarithms
  double variance = 0;
  double se2 = 0;
  double observed = 0;
  double expected = 0;
  bool constant = false;
  std::size_t nodes = 0;
  double t = 0;
  double p = 1;
};

/// What one role's nodes have in common in time.
struct Overlap {
  std::vector<std::size_t> members;  // that lived long enough
  std::vector<std::size_t> left_out;
  std::int64_t block_ns = 0;
  std::int64_t first = 0;
  std::int64_t last = -1;  // blocks, inclusive
  double seconds = 0;

  [[nodiscard]] std::size_t blocks() const { return last < first ? 0 : static_cast<std::size_t>(last - first + 1); }
};

template <typename T>
T median_of(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Overlap overlap_of(const std::vector<const NodeProfile*>& nodes, const std::vector<std::size_t>& role) {
  std::vector<double> lives;
  lives.reserve(role.size());
  for (const std::size_t node : role) lives.push_back(nodes[node]->seconds());
  const double usual = median_of(lives);
  Overlap overlap;
  std::int64_t begin = std::numeric_limits<std::int64_t>::min();
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  for (const std::size_t node : role) {
    const NodeProfile& profile = *nodes[node];
    if (profile.seconds() < kLeastLife * usual || profile.block_ns <= 0) {
      overlap.left_out.push_back(node);
      continue;
    }
    overlap.members.push_back(node);
    overlap.block_ns = std::max(overlap.block_ns, profile.block_ns);
    begin = std::max(begin, profile.begin_utc_ns);
    end = std::min(end, profile.end_utc_ns);
  }
  if (overlap.members.empty() || end <= begin) return overlap;
  overlap.first = begin / overlap.block_ns;
  overlap.last = (end - 1) / overlap.block_ns;
  overlap.seconds = static_cast<double>(end - begin) * 1e-9;
  return overlap;
}

/// The channel's blocks on the common, perhaps coarser ones; NaN where it has less than half.
void fold(const NodeProfile& profile, const ProfileChannel* channel, const Overlap& overlap, std::vector<double>& out) {
  out.assign(overlap.blocks(), kNaN);
  if (channel == nullptr || channel->blocks.empty()) {
    // Never changed: the same in every block the node lived in for at least half.
    const double value = channel == nullptr ? 0 : channel->mean;
    for (std::size_t b = 0; b < out.size(); ++b) {
      const std::int64_t begin = (overlap.first + static_cast<std::int64_t>(b)) * overlap.block_ns;
      const std::int64_t lived =
          std::min(begin + overlap.block_ns, profile.end_utc_ns) - std::max(begin, profile.begin_utc_ns);
      if (2 * lived >= overlap.block_ns) out[b] = value;
    }
    return;
  }
  const std::int64_t ratio = std::max<std::int64_t>(1, overlap.block_ns / profile.block_ns);
  for (std::size_t b = 0; b < out.size(); ++b) {
    const std::int64_t fine = (overlap.first + static_cast<std::int64_t>(b)) * ratio - profile.first_block;
    double sum = 0;
    std::int64_t present = 0;
    for (std::int64_t i = std::max<std::int64_t>(fine, 0);
         i < std::min(fine + ratio, static_cast<std::int64_t>(channel->blocks.size())); ++i) {
      const double value = channel->blocks[static_cast<std::size_t>(i)];
      if (!std::isfinite(value)) continue;
      sum += value;
      ++present;
    }
    if (2 * present >= ratio && present > 0) out[b] = sum / static_cast<double>(present);
  }
}

/// One channel of one role: every node against all others.
class ColumnTest {
 public:
  ColumnTest(const std::vector<const NodeProfile*>& nodes, const ProfileTable& table, const Overlap& overlap)
      : nodes_(nodes), table_(table), overlap_(overlap) {}

  /// Appends a test per node, and the variance between the nodes where there is any; false when it cannot be compared.
  bool run(std::size_t column, std::vector<Test>& tests, std::vector<double>& variances) {
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
    const double variance = std::max(0.0, (squares - sum * sum / n) / (n - 1));
    if (variance > 0) variances.push_back(variance);
    for (std::size_t i = 0; i < count; ++i) {
      const double own = level_[i] - centre;
      const double others = sum - own;
      const double others_squares = squares - own * own;
      const double expected = median_without(sorted, level_[i]);
      tests.push_back(
          {.member = measured_[i],
           .column = column,
           .effect = level_[i] - expected,
           .variance = count < 3 ? 0 : std::max(0.0, (others_squares - others * others / (n - 1)) / (n - 2)),
           .se2 = se2_[i],
           .observed = mean_[i],
           .expected = table_.columns[column].floor * std::expm1(expected),
           .constant = constant_,
           .nodes = count});
    }
    return true;
  }

  /// Part of the common blocks in which the role's member shows more than all others.
  [[nodiscard]] double share_at_top(std::size_t member) const {
    std::size_t top = 0;
    std::size_t all = 0;
    for (std::size_t b = 0; b < overlap_.blocks(); ++b) {
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

 private:
  bool collect(std::size_t column) {
    const std::size_t width = table_.columns.size();
    measured_.clear();
    level_.clear();
    mean_.clear();
    std::size_t measured = 0;
    constant_ = true;
    blocks_.resize(overlap_.members.size());
    for (std::size_t m = 0; m < overlap_.members.size(); ++m) {
      const std::size_t node = overlap_.members[m];
      if (std::isnan(table_.row(node)[column])) continue;
      const ProfileChannel* channel = table_.channels[node * width + column];
      fold(*nodes_[node], channel, overlap_, blocks_[measured]);
      const std::vector<double>& blocks = blocks_[measured];
      const auto present = std::count_if(blocks.begin(), blocks.end(), [](double value) { return !std::isnan(value); });
      if (static_cast<std::size_t>(present) < std::max(kLeastBlocks - 1, overlap_.blocks() / 2)) continue;
      constant_ = constant_ && (channel == nullptr || channel->blocks.empty());
      measured_.push_back(m);
      mean_.push_back(mean_of(blocks));
      level_.push_back(activity_of(mean_.back(), table_.columns[column].floor));
      ++measured;
    }
    if (measured < 2 || static_cast<double>(measured) < kLeastMeasured * static_cast<double>(overlap_.members.size())) {
      return false;
    }
    // What nodes inherited from earlier jobs differs by nature, unless it is a setting.
    if (table_.columns[column].inherited && !constant_) return false;
    if (*std::max_element(level_.begin(), level_.end()) < 0.1) return false;  // all of them next to nothing
    standard_errors(column);
    return true;
  }

  /// Batch means: how far a node's whole-job mean would wander if the job ran again, as its blocks wander.
  void standard_errors(std::size_t column) {
    const double floor = table_.columns[column].floor;
    se2_.assign(measured_.size(), 0);
    if (constant_) return;
    std::vector<double> sums(measured_.size(), 0.0);
    std::vector<double> squares(measured_.size(), 0.0);
    std::vector<double> counts(measured_.size(), 0.0);
    std::vector<double> levels;
    for (std::size_t b = 0; b < overlap_.blocks(); ++b) {
      levels.clear();
      for (std::size_t i = 0; i < measured_.size(); ++i) {
        if (!std::isnan(blocks_[i][b])) levels.push_back(activity_of(blocks_[i][b], floor));
      }
      if (levels.size() < 2) continue;
      const double job = median_of(levels);
      for (std::size_t i = 0; i < measured_.size(); ++i) {
        if (std::isnan(blocks_[i][b])) continue;
        const double away = activity_of(blocks_[i][b], floor) - job;
        sums[i] += away;
        squares[i] += away * away;
        counts[i] += 1;
      }
    }
    for (std::size_t i = 0; i < measured_.size(); ++i) {
      if (counts[i] < 2) continue;
      const double variance = std::max(0.0, (squares[i] - sums[i] * sums[i] / counts[i]) / (counts[i] - 1));
      se2_[i] = variance / counts[i];
    }
  }

  /// Median of all but one `value` of a sorted list.
  static double median_without(const std::vector<double>& sorted, double value) {
    const auto gone = static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
    const auto at = [&](std::size_t i) { return sorted[i < gone ? i : i + 1]; };
    const std::size_t count = sorted.size() - 1;
    return count % 2 == 1 ? at(count / 2) : (at(count / 2 - 1) + at(count / 2)) / 2;
  }

  const std::vector<const NodeProfile*>& nodes_;
  const ProfileTable& table_;
  const Overlap& overlap_;
  std::vector<std::size_t> measured_;  // indices into overlap_.members
  std::vector<std::vector<double>> blocks_;
  std::vector<double> mean_, level_, se2_;
  bool constant_ = false;
};

double percent_of(double observed, double expected, double floor) {
  return 100 * (observed - expected) / std::max(std::abs(expected), floor);
}

bool is_work(const PeerDeviation& deviation, double floor) {
  const bool named = std::any_of(std::begin(kWork), std::end(kWork), [&](std::string_view prefix) {
    return std::string_view(deviation.channel).starts_with(prefix);
  });
  // Traffic that the peers do not have at all is somebody's task: a log, a data set, a launcher's connection.
  return named || (deviation.unit == "bytes/s" && deviation.expected < floor);
}

bool is_telling(const PeerDeviation& deviation, double floor) {
  if (is_work(deviation, floor)) return false;
  if (std::string_view(deviation.channel).starts_with("pressure.")) return true;
  // One rank that logs, loads or writes checkpoints makes memory and storage of its node differ.
  return deviation.subsystem != Subsystem::memory && deviation.subsystem != Subsystem::storage;
}

/// States of the node rather than amounts of work: different for no good reason.
bool is_state(const PeerDeviation& deviation) {
  constexpr std::string_view kStates[] = {"Hz", "Cel", "W", "J/s", "percent", "s/s"};
  return std::find(std::begin(kStates), std::end(kStates), deviation.unit) != std::end(kStates) ||
         deviation.channel == "job.outsider_cpu";
}

void judge_tests(std::vector<Test>& tests, std::span<const double> variances, std::size_t role_size) {
  const VariancePrior prior = variance_prior(variances, static_cast<double>(role_size - 1), kLeastSpread);
  for (Test& test : tests) {
    const auto others = static_cast<double>(test.nodes - 1);
    // A setting has no noise of its own to be judged by; the usual spread between nodes must do.
    const VariancePrior used = test.constant ? VariancePrior{prior.s2, kStaticPriorDf} : prior;
    const double variance = used.moderated(test.variance, others - 1);
    test.t = test.effect / std::sqrt(variance * (1 + std::numbers::pi / 2 / others) + test.se2);
    test.p = two_sided_p(test.t, others - 1 + used.df);
  }
}

PeerDeviation deviation_of(const Test& test, const ProfileTable::Column& column, const std::string& node) {
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

bool large_enough(const PeerDeviation& deviation, double floor, double least_percent) {
  return std::abs(deviation.percent) >= least_percent && std::abs(deviation.observed - deviation.expected) >= floor;
}

std::string pair_sentence(const std::vector<Test>& tests, const ProfileTable& table) {
  std::vector<std::pair<double, std::string>> differ;
  for (std::size_t i = 0; i + 1 < tests.size(); i += 2) {
    const Test& a = tests[i];
    const Test& b = tests[i + 1];
    const auto& column = table.columns[a.column];
    const double low = std::min(a.observed, b.observed);
    const double high = std::max(a.observed, b.observed);
    // Each side's blocks are all there is to judge by: a difference they reach by themselves is none.
    const double wander = 3 * std::sqrt(a.se2 + b.se2);
    const double percent = percent_of(high, low, column.floor);
    if (percent < kPairPercent || high - low < column.floor || std::abs(a.effect) < wander) continue;
    PeerDeviation deviation = deviation_of(a, column, "");
    if (!deviation.telling) continue;
    differ.emplace_back(
        percent, fmt::format("{} ({} and {})", column.name, quantity(low, column.unit), quantity(high, column.unit)));
  }
  if (differ.empty()) return "";
  std::stable_sort(differ.begin(), differ.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return fmt::format("they differ in {}, most in {}", counted(static_cast<double>(differ.size()), "channel"),
                     differ.front().second);
}

class Comparer {
 public:
  Comparer(const std::vector<const NodeProfile*>& nodes, const AnalysisSettings& settings)
      : nodes_(nodes),
        straggling_("node.straggler", settings),
        least_percent_(RuleInForce("node.differs", settings).threshold("min_percent")),
        table_(tabulate(nodes)) {}

  PeerComparison run() {
    out_.reason.clear();
    for (const auto& members : find_roles(table_)) compare_role(members);
    collect_deviations();
    collect_cells();
    compare_facts();
    out_.compared =
        std::any_of(out_.roles.begin(), out_.roles.end(), [](const PeerRole& role) { return role.compared; });
    if (!out_.compared) out_.reason = out_.roles.empty() ? "no node was measured" : out_.roles.front().reason;
    out_.sentence = sentence();
    return std::move(out_);
  }

 private:
  void compare_role(const std::vector<std::size_t>& members) {
    PeerRole role;
    for (const std::size_t node : members) role.nodes.push_back(nodes_[node]->node);
    std::sort(role.nodes.begin(), role.nodes.end());
    if (members.size() == 1) {
      role.reason = "no other node does the same kind of work: it has no peers";
      out_.roles.push_back(std::move(role));
      return;
    }
    const Overlap overlap = overlap_of(nodes_, members);
    role.seconds = overlap.seconds;
    for (const std::size_t node : overlap.left_out) {
      role.reason += fmt::format("{}{} lived for {} only and was left out", role.reason.empty() ? "" : "; ",
                                 nodes_[node]->node, duration(nodes_[node]->seconds()));
      if (role.reason.size() > 300) break;  // a few are enough to understand
    }
    if (overlap.members.size() < 2 || overlap.blocks() < kLeastBlocks) {
      role.reason +=
          fmt::format("{}the nodes have only {} in common", role.reason.empty() ? "" : "; ", duration(overlap.seconds));
      out_.roles.push_back(std::move(role));
      return;
    }
    std::vector<Test> tests;
    std::vector<double> variances;
    ColumnTest column_test(nodes_, table_, overlap);
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      if (column_test.run(c, tests, variances)) ++role.channels;
    }
    if (overlap.members.size() < kLeastNodes) {
      const std::string differ = pair_sentence(tests, table_);
      role.reason =
          fmt::format("of two nodes nobody can tell which is the odd one{}{}", differ.empty() ? "" : "; ", differ);
      out_.roles.push_back(std::move(role));
      return;
    }
    role.compared = true;
    judge_tests(tests, variances, overlap.members.size());
    for (Test& test : tests) test.member = overlap.members[test.member];
    if (out_.straggler.signal.empty()) find_straggler(overlap, tests, column_test);
    tests_.insert(tests_.end(), tests.begin(), tests.end());
    out_.roles.push_back(std::move(role));
  }

  /// Nodes of a synchronous job wait for the slowest, which itself waits for nobody: it spends most of its time on its
  /// own work. Run-queue wait is part of that own time; a rank blocked in a receive sleeps, and that is what is missing
  /// from it. Ranks that poll while they wait look like ranks that work.
  void find_straggler(const Overlap& overlap, const std::vector<Test>& tests, ColumnTest& column_test) {
    Straggler& straggler = out_.straggler;
    straggler.signal = kOwnTime;
    const auto column = std::find_if(table_.columns.begin(), table_.columns.end(),
                                     [](const auto& known) { return known.name == kOwnTime; });
    const auto c = static_cast<std::size_t>(column - table_.columns.begin());
    const Test* longest = nullptr;
    for (const Test& test : tests) {
      if (test.column == c && (longest == nullptr || test.observed > longest->observed)) longest = &test;
    }
    if (longest == nullptr) {
      straggler.reason = "not measured how long the ranks were held by their own node (job.cpu_time, job.wait_time)";
      return;
    }
    // What this one signal's spread between equal nodes is, is known better than what hundreds of counters say of it.
    const auto others = static_cast<double>(longest->nodes - 1);
    const double variance = kOwnTimePrior.moderated(longest->variance, others - 1);
    const double t = longest->effect / std::sqrt(variance * (1 + std::numbers::pi / 2 / others) + longest->se2);
    const double p = two_sided_p(t, others - 1 + kOwnTimePrior.df) * static_cast<double>(longest->nodes);
    const double percent = percent_of(longest->observed, longest->expected, column->floor);
    std::vector<Test> unused;
    std::vector<double> no_variances;
    const bool again = column_test.run(c, unused, no_variances);
    const auto member = static_cast<std::size_t>(
        std::find(overlap.members.begin(), overlap.members.end(), longest->member) - overlap.members.begin());
    const double at_top = again ? column_test.share_at_top(member) : 0;
    if (percent < straggling_.threshold("min_percent") || longest->observed - longest->expected < column->floor ||
        p > kStragglerP || at_top < straggling_.threshold("min_time_at_top")) {
      straggler.reason =
          "no node waits less than the others throughout: none is slower, or the ranks poll while they wait";
      return;
    }
    straggler.node = nodes_[longest->member]->node;
    straggler.observed = longest->observed;
    straggler.expected = longest->expected;
    straggler.percent = 100 * (longest->observed - longest->expected) / longest->observed;
    straggler.seconds = straggler.percent / 100 * overlap.seconds;
  }

  void collect_deviations() {
    std::vector<double> p;
    p.reserve(tests_.size());
    for (const Test& test : tests_) p.push_back(test.p);
    out_.tests = tests_.size();
    const double limit = discovery_limit(std::move(p), kDiscoveryRate);
    for (const Test& test : tests_) {
      if (test.p > limit) continue;
      const auto& column = table_.columns[test.column];
      PeerDeviation deviation = deviation_of(test, column, nodes_[test.member]->node);
      if (large_enough(deviation, column.floor, least_percent_)) out_.deviations.push_back(std::move(deviation));
    }
    std::sort(out_.deviations.begin(), out_.deviations.end(), [](const PeerDeviation& a, const PeerDeviation& b) {
      return a.node != b.node ? a.node < b.node : std::abs(a.t) > std::abs(b.t);
    });
  }

  void collect_cells() {
    std::map<std::pair<std::string, Subsystem>, PeerCell> cells;
    for (const PeerDeviation& deviation : out_.deviations) {
      PeerCell& cell = cells[{deviation.node, deviation.subsystem}];
      cell.node = deviation.node;
      cell.subsystem = deviation.subsystem;
      ++cell.channels;
      if (std::abs(deviation.percent) > std::abs(cell.percent)) cell.percent = deviation.percent;
    }
    for (auto& [key, cell] : cells) out_.cells.push_back(std::move(cell));
    // The map has seen all of them; the list names the strongest.
    if (out_.deviations.size() <= kMostDeviations) return;
    std::vector<double> strengths;
    for (const PeerDeviation& deviation : out_.deviations) strengths.push_back(-std::abs(deviation.t));
    std::nth_element(strengths.begin(), strengths.begin() + kMostDeviations, strengths.end());
    const double least = -strengths[kMostDeviations];
    const std::size_t before = out_.deviations.size();
    std::erase_if(out_.deviations, [least](const PeerDeviation& deviation) { return std::abs(deviation.t) <= least; });
    out_.deviations_left_out = before - out_.deviations.size();
  }

  void compare_facts() {
    if (nodes_.size() < kLeastNodes) return;
    std::map<std::string_view, std::map<std::string_view, std::vector<std::size_t>>> values;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      for (const auto& [key, value] : nodes_[n]->facts) values[key][value].push_back(n);
    }
    for (const auto& [key, by_value] : values) {
      const auto usual = std::max_element(by_value.begin(), by_value.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
      if (by_value.size() < 2 ||
          static_cast<double>(usual->second.size()) < kMajority * static_cast<double>(nodes_.size())) {
        continue;
      }
      for (auto at = by_value.begin(); at != by_value.end(); ++at) {
        if (at == usual || out_.facts.size() >= kMostFacts) continue;
        FactDifference difference{std::string(key), {}, std::string(at->first), std::string(usual->first)};
        for (const std::size_t n : at->second) difference.nodes.push_back(nodes_[n]->node);
        out_.facts.push_back(std::move(difference));
      }
    }
  }

  [[nodiscard]] std::string sentence() const {
    if (!out_.compared) return "not compared with each other: " + out_.reason;
    std::size_t compared = 0;
    std::size_t channels = 0;
    std::size_t lone = 0;
    for (const PeerRole& role : out_.roles) {
      if (role.compared) compared += role.nodes.size();
      if (role.compared) channels = std::max(channels, role.channels);
      if (role.nodes.size() == 1) ++lone;
    }
    std::string text = fmt::format("{} nodes that do the same work compared in {}: ", compared,
                                   counted(static_cast<double>(channels), "channel"));
    std::set<std::string> odd;
    for (const PeerDeviation& deviation : out_.deviations) {
      if (deviation.telling) odd.insert(deviation.node);
    }
    if (odd.empty()) {
      text += out_.deviations.empty() ? "none differs" : "they differ only in what one of them was given to do";
    } else if (odd.size() == 1) {
      text += *odd.begin() + " differs";
    } else {
      text += fmt::format("{} of them differ", odd.size());
    }
    if (!out_.straggler.node.empty()) text += fmt::format("; the others wait for {}", out_.straggler.node);
    if (lone > 0) text += fmt::format("; {} {} of another role, without peers", lone, lone == 1 ? "is" : "are");
    return text;
  }

  const std::vector<const NodeProfile*>& nodes_;
  RuleInForce straggling_;
  double least_percent_;
  ProfileTable table_;
  PeerComparison out_;
  std::vector<Test> tests_;
};

std::string base_metric(const std::string& channel) {
  return channel.substr(0, channel.find('/'));
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
  evidence.detectors = {"PEERS"};
  evidence.score = std::clamp(deviation.t, -999.0, 999.0);
  return evidence;
}

const PeerRole* role_of(const PeerComparison& comparison, const std::string& node) {
  for (const PeerRole& role : comparison.roles) {
    if (std::binary_search(role.nodes.begin(), role.nodes.end(), node)) return &role;
  }
  return nullptr;
}

Finding differs(const PeerComparison& comparison, const std::vector<const PeerDeviation*>& telling, TimeSpan job,
                const RuleInForce& rule) {
  const PeerDeviation& first = *telling.front();
  const PeerRole* role = role_of(comparison, first.node);
  const std::size_t peers = role == nullptr ? 0 : role->nodes.size() - 1;
  Finding finding = rule.finding({first.node});
  finding.subsystem = first.subsystem;
  finding.intervals = {job};
  finding.confidence = peers >= 7 ? Confidence::likely : Confidence::possible;
  const bool state =
      std::any_of(telling.begin(), telling.end(), [](const auto* deviation) { return is_state(*deviation); });
  finding.severity = state ? Severity::notice : Severity::info;
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(telling.size(), 3); ++i) {
    list +=
        fmt::format("{}{} {} instead of {}", i == 0 ? "" : ", ", telling[i]->channel,
                    quantity(telling[i]->observed, telling[i]->unit), quantity(telling[i]->expected, telling[i]->unit));
  }
  finding.sentence = fmt::format("Over the whole job {} differed from the {} nodes that do the same work in {}: {}.",
                                 first.node, peers, counted(static_cast<double>(telling.size()), "channel"), list);
  finding.impact.how = "a difference between nodes; what it costs is not known";
  for (std::size_t i = 0; i < std::min<std::size_t>(telling.size(), 6); ++i) {
    finding.evidence.push_back(evidence_of(*telling[i], job));
  }
  std::vector<std::string> settings;
  for (const FactDifference& fact : comparison.facts) {
    if (std::find(fact.nodes.begin(), fact.nodes.end(), first.node) == fact.nodes.end()) continue;
    if (settings.size() < 3)
      settings.push_back(fmt::format("{} is {}, elsewhere {}", fact.key, fact.value, fact.usual));
  }
  if (!settings.empty()) {
    finding.sentence += " Its configuration differs too:";
    for (std::size_t i = 0; i < settings.size(); ++i) finding.sentence += (i == 0 ? " " : "; ") + settings[i];
    finding.sentence += ".";
  }
  finding.runner_up = {"note.rank0_role", "one rank may have been given more to do: see whether it follows the rank"};
  return finding;
}

Finding straggles(const PeerComparison& comparison, TimeSpan job, const RuleInForce& rule) {
  const Straggler& straggler = comparison.straggler;
  const PeerRole* role = role_of(comparison, straggler.node);
  const std::size_t peers = role == nullptr ? 0 : role->nodes.size() - 1;
  Finding finding = rule.finding({straggler.node});
  finding.intervals = {job};
  finding.confidence = Confidence::possible;
  // More to do looks the same. Only where the node itself is in another state than its peers' is it a matter of
  // machines.
  const bool state =
      std::any_of(comparison.deviations.begin(), comparison.deviations.end(), [&](const auto& deviation) {
        return deviation.node == straggler.node && deviation.telling && is_state(deviation);
      });
  const bool material =
      straggler.seconds >= rule.threshold("warning_seconds") && straggler.percent >= rule.threshold("warning_percent");
  finding.severity = state && material ? Severity::warning : Severity::notice;
  finding.sentence = fmt::format(
      "{} waits least: its ranks were held by their own work or node for {} cpus on average, those of the {} others "
      "for "
      "{}, who slept the rest of the time. In a job whose nodes work in step the others wait for it.",
      straggler.node, number(straggler.observed), peers, number(straggler.expected));
  finding.impact = {straggler.seconds, straggler.percent,
                    "time the others slept while it was busy; nothing is lost if they do not wait for each other"};
  PeerDeviation own{.node = straggler.node,
                    .channel = straggler.signal,
                    .unit = "cpus",
                    .observed = straggler.observed,
                    .expected = straggler.expected};
  finding.evidence.push_back(evidence_of(own, job));
  finding.evidence.back().score.reset();
  for (const PeerDeviation& deviation : comparison.deviations) {
    if (deviation.node != straggler.node || !deviation.telling || finding.evidence.size() >= 6) continue;
    finding.evidence.push_back(evidence_of(deviation, job));
  }
  finding.runner_up = {"note.job_imbalance", "it may simply have more to do than the others: then it follows the rank"};
  finding.remedy.user = {
      fmt::format("sbatch --exclude={} ...   # once, to see whether the time is lost again", straggler.node)};
  finding.remedy.admin = {
      fmt::format("look at {}: clock limits, throttling, memory and disk errors, leftover processes", straggler.node)};
  return finding;
}

}  // namespace

PeerComparison compare_peers(const std::vector<const NodeProfile*>& nodes, const AnalysisSettings& settings) {
  if (nodes.size() >= 2) return Comparer(nodes, settings).run();
  PeerComparison none;
  none.reason = nodes.empty() ? "no node has a profile to be compared by" : "one node has no peers";
  return none;
}

std::vector<Finding> peer_findings(const PeerComparison& comparison, TimeSpan job, const AnalysisSettings& settings) {
  const RuleInForce straggling("node.straggler", settings);
  const RuleInForce differing("node.differs", settings);
  std::vector<Finding> findings;
  if (!comparison.straggler.node.empty() && straggling.enabled()) {
    findings.push_back(straggles(comparison, job, straggling));
  }
  if (!differing.enabled()) return findings;
  std::map<std::string, std::vector<const PeerDeviation*>> by_node;
  for (const PeerDeviation& deviation : comparison.deviations) {
    if (deviation.telling) by_node[deviation.node].push_back(&deviation);
  }
  for (const auto& [node, telling] : by_node) {
    std::set<std::string> metrics;
    for (const PeerDeviation* deviation : telling) metrics.insert(base_metric(deviation->channel));
    const bool enough = static_cast<double>(metrics.size()) >= differing.threshold("min_metrics");
    if (enough && node != comparison.straggler.node) findings.push_back(differs(comparison, telling, job, differing));
  }
  return findings;
}

namespace {

/// How much a channel's course rose in a span against the time before and after it, and by how much it might have done
/// so by chance.
struct Rise {
  double by = kNaN;
  double noise = 0;
};

Rise rise_in(const NodeProfile& profile, const ProfileChannel& channel, TimeSpan span) {
  constexpr std::int64_t kAroundPoints = 5;
  if (profile.line_step_ns <= 0 || channel.line.empty()) return {};
  const auto first = static_cast<std::ptrdiff_t>((span.begin_utc_ns - profile.begin_utc_ns) / profile.line_step_ns);
  const auto last = static_cast<std::ptrdiff_t>((span.end_utc_ns - 1 - profile.begin_utc_ns) / profile.line_step_ns);
  const auto around = std::max<std::ptrdiff_t>(kAroundPoints, 2 * (last - first + 1));
  std::vector<double> inside;
  std::vector<double> outside;
  for (std::ptrdiff_t i = std::max<std::ptrdiff_t>(0, first - around);
       i <= last + around && i < static_cast<std::ptrdiff_t>(channel.line.size()); ++i) {
    const double value = line_value(channel, static_cast<std::size_t>(i));
    if (!std::isnan(value)) (i >= first && i <= last ? inside : outside).push_back(value);
  }
  if (inside.empty() || outside.size() < 3) return {};
  const double usual = median_of(outside);
  for (double& value : outside) value = std::abs(value - usual);
  return {mean_of(inside) - usual, 1.4826 * median_of(outside) / std::sqrt(static_cast<double>(inside.size()))};
}

}  // namespace

std::optional<double> share_of_peers_alike(const NodeProfile& node, const std::vector<const NodeProfile*>& peers,
                                           TimeSpan span, const std::vector<std::string>& channels) {
  constexpr double kVisible = 0.03;  // of the line's range: it has 64 levels
  constexpr double kBeyondNoise = 3;
  constexpr double kAlike = 0.5;  // of the node's own change
  constexpr std::size_t kMostPeers = 16;
  struct Own {
    std::string name;
    double change;
  };
  std::vector<Own> own;
  for (const std::string& name : channels) {
    const ProfileChannel* channel = node.find(base_metric(name));
    if (channel == nullptr) continue;
    const Rise rise = rise_in(node, *channel, span);
    const double least = std::max(kVisible * (channel->high - channel->low), kBeyondNoise * rise.noise);
    if (std::abs(rise.by) >= least && rise.by != 0) own.push_back({channel->name, rise.by});
  }
  // One that cannot be compared might be the one that counts.
  if (own.empty() || own.size() < channels.size()) return std::nullopt;
  std::size_t compared = 0;
  std::size_t alike = 0;
  const std::size_t stride = std::max<std::size_t>(1, peers.size() / kMostPeers);
  for (std::size_t i = 0; i < peers.size(); i += stride) {
    const NodeProfile& peer = *peers[i];
    if (&peer == &node || peer.begin_utc_ns > span.begin_utc_ns || peer.end_utc_ns < span.end_utc_ns) continue;
    ++compared;
    const bool same = std::all_of(own.begin(), own.end(), [&](const Own& one) {
      const ProfileChannel* channel = peer.find(one.name);
      return channel != nullptr && rise_in(peer, *channel, span).by / one.change >= kAlike;
    });
    alike += same ? 1 : 0;
  }
  if (compared == 0) return std::nullopt;
  return static_cast<double>(alike) / static_cast<double>(compared);
}

}  // namespace reveal
