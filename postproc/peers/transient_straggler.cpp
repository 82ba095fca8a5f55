#include "postproc/peers/transient_straggler.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/job_progress.h"
#include "postproc/numerics/median.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Nodes of a job do not begin and end alike.
constexpr std::int64_t kEdgeNs = 5'000'000'000;
constexpr std::size_t kLeastPoints = 30;
constexpr double kWindowSeconds = 5;
constexpr double kRival = 0.7;
/// Own times that differ by no more than this part are equal: neither waits for the other.
constexpr double kEqual = 0.15;
/// Share of its usual own time: a node that others wait for does not wait itself.
constexpr double kNoLess = 0.95;

/// Own time of the members of one group on common points of wall time.
struct Trends {
  std::vector<const NodeProfile*> nodes;
  std::vector<std::vector<double>> own;
  std::vector<std::vector<double>> ordered;  // per point: the nodes' values, ascending, without those not measured
  std::int64_t begin_utc_ns = 0;
  std::int64_t step_ns = 0;

  [[nodiscard]] std::size_t points() const { return own.empty() ? 0 : own.front().size(); }
  [[nodiscard]] TimeSpan span(Interval at) const { return {time_of(at.begin), time_of(at.end)}; }
  /// The points in the span; empty where there are none.
  [[nodiscard]] Interval interval(const TimeSpan& span) const {
    const auto point = [this](std::int64_t utc_ns) {
      const std::int64_t end = time_of(points());
      return static_cast<std::size_t>((std::clamp(utc_ns, begin_utc_ns, end) - begin_utc_ns) / step_ns);
    };
    return {point(span.begin_utc_ns), point(span.end_utc_ns)};
  }
  [[nodiscard]] std::int64_t time_of(std::size_t point) const {
    return begin_utc_ns + static_cast<std::int64_t>(point) * step_ns;
  }
};

/// A channel of the node on the points; empty where it has no trend.
std::vector<double> on_points(const NodeProfile& node, std::string_view name, const Trends& trends,
                              std::size_t points) {
  const ProfileChannel* channel = node.find(name);
  if (channel == nullptr || !channel->has_line() || node.sparkline_step_ns <= 0) return {};
  std::vector<double> values(points);
  for (std::size_t i = 0; i < points; ++i) {
    const std::int64_t middle = trends.time_of(i) + trends.step_ns / 2;
    values[i] =
        sparkline_value(*channel, static_cast<std::size_t>((middle - node.begin_utc_ns) / node.sparkline_step_ns));
  }
  return values;
}

Trends trends_of(const PeerGroup& group, std::span<const NodeProfile* const> nodes) {
  Trends trends;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  for (const NodeProfile* node : nodes) {
    if (!std::binary_search(group.nodes.begin(), group.nodes.end(), node->node)) continue;
    const ProfileChannel* channel = node->find(kOwnTime);
    if (channel == nullptr || !channel->has_line() || node->sparkline_step_ns <= 0) continue;
    trends.nodes.push_back(node);
    trends.step_ns = std::max(trends.step_ns, node->sparkline_step_ns);
    trends.begin_utc_ns = std::max(trends.begin_utc_ns, node->begin_utc_ns);
    end = std::min(end, node->end_utc_ns);
  }
  trends.begin_utc_ns += kEdgeNs;
  end -= kEdgeNs;
  if (trends.nodes.size() < 2 || end <= trends.begin_utc_ns || trends.step_ns <= 0) return {};
  const auto points = static_cast<std::size_t>((end - trends.begin_utc_ns) / trends.step_ns);
  for (const NodeProfile* node : trends.nodes) trends.own.push_back(on_points(*node, kOwnTime, trends, points));
  trends.ordered.resize(points);
  for (std::size_t i = 0; i < points; ++i) {
    for (const std::vector<double>& own : trends.own) {
      if (!std::isnan(own[i])) trends.ordered[i].push_back(own[i]);
    }
    std::sort(trends.ordered[i].begin(), trends.ordered[i].end());
  }
  return trends;
}

std::size_t points_in(double seconds, const Trends& trends) {
  return static_cast<std::size_t>(std::max(1.0, std::round(seconds * 1e9 / static_cast<double>(trends.step_ns))));
}

std::vector<double> of_the_others(const Trends& trends, std::size_t member) {
  std::vector<double> others(trends.points());
  for (std::size_t i = 0; i < others.size(); ++i) others[i] = median_without(trends.ordered[i], trends.own[member][i]);
  return others;
}

struct Stretch {
  Interval at;
  std::optional<double> score = std::nullopt;  // where the trend itself was searched
  double own = 0, own_usual = 0;
  double others = 0, others_usual = 0;
};

/// `excluded`: unusual steps; `at` is among them.
Stretch stretch_at(std::span<const double> own, std::span<const double> others, Interval at,
                   std::span<const Interval> excluded) {
  return {.at = at,
          .score = std::nullopt,
          .own = mean_inside(own, at),
          .own_usual = mean_outside(own, excluded),
          .others = mean_inside(others, at),
          .others_usual = mean_outside(others, excluded)};
}

std::vector<Stretch> stretches(const Trends& trends, std::size_t member, const EffectiveRule& rule, bool lasting) {
  const std::vector<double>& own = trends.own[member];
  const std::vector<double> others = of_the_others(trends, member);
  std::vector<double> against(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) against[i] = own[i] - others[i];
  // The usual difference may have either sign: it is the base of the search.
  const double lowest =
      *std::min_element(against.begin(), against.end(), [](double a, double b) { return std::isnan(b) || a < b; });
  for (double& value : against) value -= lowest;
  const ExcursionSearch search{.min_excess = rule.threshold("min_passing"),
                               .min_length = points_in(rule.threshold("min_passing_seconds"), trends),
                               .window = points_in(kWindowSeconds, trends),
                               .min_score = rule.threshold("min_passing_score")};
  const auto found = lasting ? find_lasting_excursions(against, search) : find_excursions(against, search);
  const std::vector<Interval> all = places(found);
  std::vector<Stretch> kept;
  for (const Excursion& excursion : found) {
    // A difference from the start is how the nodes began, not a later disturbance.
    if (excursion.recurring || !excursion.beyond || excursion.at.begin == 0) continue;
    Stretch stretch = stretch_at(own, others, excursion.at, all);
    stretch.score = excursion.score;
    if (std::isnan(stretch.own_usual) || std::isnan(stretch.others_usual)) continue;
    const double excess = excursion.inside - excursion.outside;
    if (excess < rule.threshold("min_passing_share") * stretch.own_usual) continue;
    // If it lasts for half of the run, the usual half is the one in which the nodes do the same; else it is not known.
    const bool alike_else = std::abs(stretch.own_usual - stretch.others_usual) <= kEqual * stretch.own_usual;
    if (lasting ? !alike_else : 2 * excursion.at.length() > own.size()) continue;
    if (stretch.own <= (1 + kEqual) * stretch.others) continue;
    // The others must have slept more: a node that is busier while no other waits for it is no straggler.
    if (stretch.others >= stretch.others_usual) continue;
    kept.push_back(stretch);
  }
  return kept;
}

struct Suspect {
  std::size_t member = 0;
  Stretch stretch;
};

/// Members that rose against their peers.
std::vector<Suspect> risen(const Trends& trends, const EffectiveRule& rule) {
  std::vector<Suspect> all;
  for (std::size_t member = 0; member < trends.nodes.size(); ++member) {
    auto found = stretches(trends, member, rule, true);
    if (found.empty()) found = stretches(trends, member, rule, false);
    for (const Stretch& stretch : found) all.push_back({member, stretch});
  }
  return all;
}

/// Where the nodes take turns at it, the load around them moves, and none of them is the slow one.
std::optional<Suspect> strongest_of(const std::vector<Suspect>& all) {
  const auto strongest = std::max_element(
      all.begin(), all.end(), [](const Suspect& a, const Suspect& b) { return a.stretch.score < b.stretch.score; });
  const auto rivals = [&](const Suspect& one) {
    return one.member != strongest->member &&
           one.stretch.score.value_or(0) > kRival * strongest->stretch.score.value_or(0);
  };
  if (strongest == all.end() || std::any_of(all.begin(), all.end(), rivals)) return std::nullopt;
  return *strongest;
}

/// Whether this member worked on while every other one slept more than usual.
std::optional<Stretch> worked_on(const Trends& trends, std::size_t member, Interval at, const EffectiveRule& rule) {
  const std::vector<Interval> excluded = {at};
  const Stretch stretch = stretch_at(trends.own[member], of_the_others(trends, member), at, excluded);
  if (std::isnan(stretch.own) || std::isnan(stretch.own_usual) || std::isnan(stretch.others) ||
      std::isnan(stretch.others_usual)) {
    return std::nullopt;
  }
  if (std::abs(stretch.own_usual - stretch.others_usual) > kEqual * stretch.own_usual) return std::nullopt;
  if (stretch.own < kNoLess * stretch.own_usual) return std::nullopt;
  const double least =
      std::max(rule.threshold("min_passing"), rule.threshold("min_passing_share") * stretch.others_usual);
  for (std::size_t other = 0; other < trends.own.size(); ++other) {
    if (other == member) continue;
    const double inside = mean_inside(trends.own[other], at);
    const double usual = mean_outside(trends.own[other], excluded);
    if (!(inside * (1 + kEqual) < stretch.own) || !(usual - inside >= least)) return std::nullopt;
  }
  return stretch;
}

/// The member that did the most; nothing where one of them is not known.
std::optional<std::size_t> busiest_in(const Trends& trends, Interval at) {
  std::size_t busiest = 0;
  double most = -1;
  for (std::size_t member = 0; member < trends.own.size(); ++member) {
    const double inside = mean_inside(trends.own[member], at);
    if (std::isnan(inside)) return std::nullopt;
    if (inside > most) busiest = member;
    most = std::max(most, inside);
  }
  return busiest;
}

/// While the detectors saw another one of them deviate without a known cause: in the longest such interval.
std::optional<Suspect> working_on(const Trends& trends, std::span<const Finding> found, const EffectiveRule& rule) {
  constexpr std::size_t kMostSearched = 100;  // intervals, the longest first
  const double least = rule.threshold("min_passing_seconds") * 1e9 / static_cast<double>(trends.step_ns);
  std::set<std::string_view> names;
  for (const NodeProfile* node : trends.nodes) names.insert(node->node);
  std::vector<std::pair<Interval, const Finding*>> searched;
  for (const Finding& finding : found) {
    if (finding.id != kUnexplained || finding.intervals.size() != 1) continue;
    if (std::none_of(finding.nodes.begin(), finding.nodes.end(),
                     [&names](const std::string& node) { return names.contains(node); }))
      continue;
    const Interval at = trends.interval(finding.intervals.front());
    // The same condition: not from the start, and the usual state takes longer.
    if (at.begin == 0 || static_cast<double>(at.length()) < least || 2 * at.length() > trends.points()) continue;
    searched.emplace_back(at, &finding);
  }
  std::stable_sort(searched.begin(), searched.end(),
                   [](const auto& a, const auto& b) { return a.first.length() > b.first.length(); });
  if (searched.size() > kMostSearched) searched.resize(kMostSearched);
  for (const auto& [at, finding] : searched) {
    // All others sleep more than the node they wait for.
    const auto member = busiest_in(trends, at);
    const auto deviated = [&](const std::string& node) { return node == trends.nodes[*member]->node; };
    if (!member || std::any_of(finding->nodes.begin(), finding->nodes.end(), deviated)) continue;
    if (const auto stretch = worked_on(trends, *member, at, rule)) return Suspect{*member, *stretch};
  }
  return std::nullopt;
}

std::vector<WorkCourse> work_of(const Trends& trends, std::size_t member) {
  std::vector<WorkCourse> work;
  for (const WorkMetric& one : kWorkMetrics) {
    auto rate = on_points(*trends.nodes[member], one.metric, trends, trends.points());
    if (!rate.empty()) work.push_back({one.calls, std::move(rate)});
  }
  return work;
}

/// The work, and the bytes that the node sent.
std::vector<WorkCourse> work_and_traffic_of(const Trends& trends, std::size_t member) {
  std::vector<WorkCourse> work = work_of(trends, member);
  auto sent = on_points(*trends.nodes[member], kSentByNode, trends, trends.points());
  if (!sent.empty()) work.push_back({"send", std::move(sent)});
  return work;
}

/// Whether this is true of the pace of each member.
template <typename Courses, typename Question>
bool is_true_of_all(const Trends& trends, Interval at, const Courses& courses, const Question& question) {
  for (std::size_t member = 0; member < trends.nodes.size(); ++member) {
    const std::vector<WorkCourse> work = courses(trends, member);
    const auto pace = work_pace(work, at, 0, std::max<std::size_t>(1, at.length() / 2));
    if (!pace || !question(*pace)) return false;
  }
  return true;
}

/// Nodes that work in step do less while one of them is slow: else they only divided the same work in another way. By
/// what the job reads and writes: the traffic of a node may be that of others, and go on whatever the job does.
bool all_went_on(const Trends& trends, Interval at) {
  return is_true_of_all(trends, at, work_of, [](const WorkPace& pace) { return pace.went_on(); });
}

bool all_did_less(const Trends& trends, Interval at) {
  return is_true_of_all(trends, at, work_and_traffic_of,
                        [](const WorkPace& pace) { return pace.is_work() && pace.fell(); });
}

/// The traffic of all members together; empty where that of one of them is not known.
std::vector<double> sent_by_all(const Trends& trends) {
  std::vector<double> sent(trends.points(), 0.0);
  for (const NodeProfile* node : trends.nodes) {
    const std::vector<double> own = on_points(*node, kSentByNode, trends, trends.points());
    if (own.empty()) return {};
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] += own[i];
  }
  return sent;
}

/// One member worked on while all of them did less. Where the nodes' own times wander, that tells more than these; as
/// they must agree with it, the usual score of a search is enough.
std::optional<Suspect> slowing_all(const Trends& trends, const EffectiveRule& rule) {
  std::vector<double> sent = sent_by_all(trends);
  const double usual = median_of(sent);
  if (!(usual > 0)) return std::nullopt;
  double most = 0;
  for (const double value : sent) most = value > most ? value : most;  // some are missing
  for (double& value : sent) value = most - value;
  const ExcursionSearch search{.min_excess = rule.threshold("min_passing_share") * usual,
                               .min_length = points_in(rule.threshold("min_passing_seconds"), trends),
                               .window = points_in(kWindowSeconds, trends)};
  for (const Excursion& excursion : find_excursions(sent, search)) {
    const Interval at = excursion.at;
    if (excursion.recurring || !excursion.beyond || at.begin == 0 || 2 * at.length() > trends.points()) continue;
    const auto member = busiest_in(trends, at);
    const auto stretch = member ? worked_on(trends, *member, at, rule) : std::nullopt;
    if (stretch && all_did_less(trends, at)) return Suspect{*member, *stretch};
  }
  return std::nullopt;
}

/// Whether all nodes worked or sent as usual: it is not known then that one of them lost time by waiting.
bool all_sent_as_usual(const Trends& trends, Interval at) {
  return is_true_of_all(trends, at, work_and_traffic_of, [](const WorkPace& pace) { return pace.went_on(); });
}

struct LostTime {
  std::optional<double> share;
  std::string how;
};

/// The work of ranks that the waiting nodes did not do, by the one in the middle; if it is known of none of them, that
/// of the node they waited for.
std::optional<LostTime> work_not_done(const Trends& trends, std::size_t member, Interval at) {
  std::vector<std::pair<WorkPace, std::size_t>> known;
  for (std::size_t other = 0; other < trends.nodes.size(); ++other) {
    if (other == member) continue;
    if (const auto pace = work_pace(work_of(trends, other), at)) known.emplace_back(*pace, other);
  }
  const std::size_t waiting = known.size();
  if (waiting == 0) {
    if (const auto pace = work_pace(work_of(trends, member), at)) known.emplace_back(*pace, member);
  }
  if (known.empty()) return std::nullopt;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end(),
                   [](const auto& a, const auto& b) { return a.first.lost() < b.first.lost(); });
  const auto& [pace, node] = *middle;
  if (!pace.fell()) return std::nullopt;
  std::string subject = trends.nodes[node]->node;
  if (waiting > 1) subject += fmt::format(", in the middle of the other {} nodes,", waiting);
  return LostTime{pace.lost(), pace.words(subject)};
}

LostTime lost_time(const Trends& trends, std::size_t member, const Stretch& stretch) {
  if (auto work = work_not_done(trends, member, stretch.at)) return *std::move(work);
  if (all_sent_as_usual(trends, stretch.at)) return {std::nullopt, "not known: all nodes sent as much as usual"};
  return {1 - stretch.others / stretch.others_usual,
          "additional time in which the other nodes slept; no time is lost if the nodes do not wait for each other"};
}

Finding describe(const Trends& trends, std::size_t member, const Stretch& stretch, const EffectiveRule& rule) {
  const std::string& node = trends.nodes[member]->node;
  Finding finding = rule.finding({node});
  const double length = static_cast<double>(stretch.at.length()) * static_cast<double>(trends.step_ns) * 1e-9;
  const double job = trends.nodes[member]->seconds();
  finding.intervals = {trends.span(stretch.at)};
  finding.severity = Severity::notice;
  finding.confidence = Confidence::possible;
  LostTime lost = lost_time(trends, member, stretch);
  if (lost.share) {
    finding.impact.seconds = length * *lost.share;
    finding.impact.percent = 100 * length * *lost.share / job;
  }
  finding.impact.how = std::move(lost.how);
  const std::size_t others = trends.nodes.size() - 1;
  const std::string other = others == 1 ? trends.nodes[1 - member]->node : "";
  const auto fact = [&](const std::string& of, std::string feature, double observed, double expected) {
    Evidence evidence;
    evidence.metric = kOwnTime;
    evidence.node = of;
    evidence.feature = std::move(feature);
    evidence.observed = four_digits(observed);
    evidence.expected = four_digits(expected);
    evidence.unit = "cpus";
    evidence.span = finding.intervals.front();
    evidence.detectors = {Method::peer_comparison};
    finding.evidence.push_back(std::move(evidence));
  };
  fact(node, "mean of this node", stretch.own, stretch.own_usual);
  if (stretch.score) finding.evidence.back().score = shown_score(*stretch.score);
  fact(other, others == 1 ? "mean of the other node" : fmt::format("median of the other {} nodes", others),
       stretch.others, stretch.others_usual);
  finding.sentence =
      fmt::format("For {} {} waited for {}: {} worked on {} instead of {}, those of {} on {} (usually {}).",
                  duration(length), others == 1 ? other : fmt::format("the other {} nodes", others), node,
                  others == 1 ? fmt::format("the processes of {}", other) : std::string("their processes"),
                  counted(stretch.others, "cpu"), number(stretch.others_usual), node, number(stretch.own),
                  number(stretch.own_usual));
  finding.runner_up = {
      "", "its ranks may have had more work for some time: then the waiting follows the rank, not the node"};
  return finding;
}

}  // namespace

std::vector<Finding> transient_stragglers(const PeerComparison& comparison, std::span<const NodeProfile* const> nodes,
                                          std::span<const Finding> found, const EffectiveRule& rule) {
  std::vector<Finding> findings;
  for (const PeerGroup& group : comparison.groups) {
    const Trends trends = trends_of(group, nodes);
    if (trends.points() < kLeastPoints) continue;
    const std::vector<Suspect> all = risen(trends, rule);
    auto suspect = all.empty() ? working_on(trends, found, rule) : strongest_of(all);
    if (!suspect) suspect = slowing_all(trends, rule);
    if (!suspect || all_went_on(trends, suspect->stretch.at)) continue;
    findings.push_back(describe(trends, suspect->member, suspect->stretch, rule));
  }
  return findings;
}

}  // namespace reveal
