#include "postproc/peers/across_nodes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"
#include "postproc/peers/peers.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kMostMetrics = 6;
constexpr std::size_t kPoints = 120;
constexpr std::size_t kMostOdd = 4;
constexpr std::size_t kMostPeers = 8;  // drawn beside them
constexpr std::size_t kLeastForMedian = 3;
constexpr double kLongestJob = 1e9;  // seconds

/// A channel of a node; without one, it may have been 0 all the time.
struct Course {
  const NodeProfile* node = nullptr;
  const ProfileChannel* channel = nullptr;

  [[nodiscard]] double mean() const { return channel == nullptr ? 0 : channel->mean; }

  [[nodiscard]] double at(std::int64_t utc_ns) const {
    if (utc_ns < node->begin_utc_ns || utc_ns >= node->end_utc_ns) return kNaN;
    if (channel == nullptr || (channel->blocks.empty() && !channel->has_line())) return mean();  // constant
    if (channel->has_line() && node->sparkline_step_ns > 0) {
      return sparkline_value(*channel,
                             static_cast<std::size_t>((utc_ns - node->begin_utc_ns) / node->sparkline_step_ns));
    }
    if (node->block_ns <= 0) return kNaN;
    const std::int64_t block = utc_ns / node->block_ns - node->first_block;
    const bool there = block >= 0 && static_cast<std::size_t>(block) < channel->blocks.size();
    return there ? channel->blocks[static_cast<std::size_t>(block)] : kNaN;
  }
};

struct Axis {
  std::int64_t begin_utc_ns = 0;
  double step_ns = 0;

  [[nodiscard]] std::int64_t middle(std::size_t point) const {
    return begin_utc_ns + static_cast<std::int64_t>((static_cast<double>(point) + 0.5) * step_ns);
  }
};

std::vector<double> drawn(const Course& course, const Axis& axis) {
  std::vector<double> values(kPoints);
  for (std::size_t i = 0; i < kPoints; ++i) values[i] = four_digits(course.at(axis.middle(i)));
  return values;
}

std::vector<double> median_course(const std::vector<Course>& courses, const Axis& axis) {
  std::vector<double> medians(kPoints);
  for (std::size_t i = 0; i < kPoints; ++i) {
    std::vector<double> values;
    values.reserve(courses.size());
    for (const Course& course : courses) values.push_back(course.at(axis.middle(i)));
    medians[i] = four_digits(median_of(std::move(values)));
  }
  return medians;
}

/// A channel and the nodes that differ in it, the first one most.
struct Wanted {
  std::string channel;
  std::vector<std::string> odd;
};

class Wishes {
 public:
  void add(const std::string& channel, const std::string& node) {
    const auto known =
        std::find_if(all_.begin(), all_.end(), [&](const Wanted& one) { return one.channel == channel; });
    Wanted& wanted = known == all_.end() ? all_.emplace_back(Wanted{channel, {}}) : *known;
    auto& odd = wanted.odd;
    const bool fresh = std::find(odd.begin(), odd.end(), node) == odd.end();
    if (!node.empty() && fresh && odd.size() < kMostOdd) odd.push_back(node);
  }
  [[nodiscard]] const std::vector<Wanted>& all() const { return all_; }

 private:
  std::vector<Wanted> all_;
};

std::vector<Wanted> wanted(const PeerComparison& comparison, std::span<const Finding> findings) {
  constexpr std::size_t kMostFindings = 20;
  Wishes wishes;
  for (const Finding& finding : findings.first(std::min(findings.size(), kMostFindings))) {
    if (finding.severity < Severity::notice) continue;
    for (const Evidence& evidence : finding.evidence) {
      const bool alone = evidence.instance.empty();
      wishes.add(alone ? evidence.metric : evidence.metric + '/' + evidence.instance, evidence.node);
    }
  }
  std::vector<const PeerDeviation*> deviations;
  for (const PeerDeviation& deviation : comparison.deviations) deviations.push_back(&deviation);
  std::stable_sort(deviations.begin(), deviations.end(),
                   [](const auto* a, const auto* b) { return std::abs(a->t) > std::abs(b->t); });
  for (const PeerDeviation* deviation : deviations) wishes.add(deviation->channel, deviation->node);
  return wishes.all();
}

class Drawing {
 public:
  Drawing(std::span<const NodeProfile* const> nodes, const PeerComparison& comparison, TimeSpan job)
      : comparison_(comparison),
        axis_{job.begin_utc_ns, static_cast<double>(job.end_utc_ns - job.begin_utc_ns) / kPoints} {
    for (const NodeProfile* node : nodes) by_name_[node->node] = node;
  }

  /// Profiles have few instances by name: of many only the busiest, or their sum.
  [[nodiscard]] std::string in_profiles(const std::string& channel) const {
    const std::string metric = base_metric(channel);
    for (const std::string& name : {channel, metric + "/busiest", metric}) {
      const auto has = [&](const auto& node) { return node.second->find(name) != nullptr; };
      if (std::any_of(by_name_.begin(), by_name_.end(), has)) return name;
    }
    return channel;
  }

  /// Nothing where fewer than two nodes measured it.
  [[nodiscard]] std::optional<MetricAcrossNodes> of(const Wanted& wanted) const {
    const std::string channel = in_profiles(wanted.channel);
    MetricAcrossNodes metric{.channel = channel,
                             .step_seconds = axis_.step_ns * 1e-9,
                             .median_mean = std::nullopt,
                             .median = {},
                             .lines = {}};
    std::vector<Course> peers;
    for (const std::string& node : compared_with(wanted)) {
      const auto course = course_of(node, channel);
      if (!course) continue;
      if (course->channel != nullptr) metric.unit = course->channel->unit;
      const bool odd = std::find(wanted.odd.begin(), wanted.odd.end(), node) != wanted.odd.end();
      if (odd) metric.lines.push_back({node, true, course->mean(), drawn(*course, axis_)});
      if (!odd) peers.push_back(*course);
    }
    if (metric.lines.size() + peers.size() < 2) return std::nullopt;
    const auto rank = [&wanted](const MetricAcrossNodes::Line& line) {
      return std::find(wanted.odd.begin(), wanted.odd.end(), line.node);
    };
    std::stable_sort(metric.lines.begin(), metric.lines.end(),
                     [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
    metric.peers = peers.size();
    if (peers.size() + metric.lines.size() >= kLeastForMedian && !peers.empty()) {
      std::vector<double> means;
      means.reserve(peers.size());
      for (const Course& peer : peers) means.push_back(peer.mean());
      metric.median_mean = four_digits(median_of(std::move(means)));
      metric.median = median_course(peers, axis_);
    }
    if (peers.size() > kMostPeers) peers.clear();  // a few of many are chance: the median stands for them
    for (const Course& peer : peers) metric.lines.push_back({peer.node->node, false, peer.mean(), drawn(peer, axis_)});
    return metric;
  }

 private:
  /// The group of the node that differs most, or all nodes.
  [[nodiscard]] std::vector<std::string> compared_with(const Wanted& wanted) const {
    const PeerGroup* group = wanted.odd.empty() ? nullptr : group_of(comparison_, wanted.odd.front());
    if (group != nullptr && group->nodes.size() > 1) return group->nodes;
    std::vector<std::string> all;
    all.reserve(by_name_.size());
    for (const auto& [name, node] : by_name_) all.push_back(name);
    return all;
  }

  [[nodiscard]] std::optional<Course> course_of(const std::string& node, const std::string& channel) const {
    const auto at = by_name_.find(node);
    if (at == by_name_.end()) return std::nullopt;
    const ProfileChannel* known = at->second->find(channel);
    if (known == nullptr && !at->second->is_zero(channel)) return std::nullopt;
    return Course{at->second, known};
  }

  const PeerComparison& comparison_;
  Axis axis_;
  std::map<std::string, const NodeProfile*> by_name_;
};

}  // namespace

std::vector<MetricAcrossNodes> metrics_across(std::span<const NodeProfile* const> nodes,
                                              const PeerComparison& comparison, std::span<const Finding> findings,
                                              TimeSpan job) {
  std::vector<MetricAcrossNodes> metrics;
  const double seconds = static_cast<double>(job.end_utc_ns) * 1e-9 - static_cast<double>(job.begin_utc_ns) * 1e-9;
  if (nodes.size() < 2 || !(seconds > 0) || seconds > kLongestJob) return metrics;
  const Drawing drawing(nodes, comparison, job);
  std::set<std::string> taken;
  for (const Wanted& one : wanted(comparison, findings)) {
    if (metrics.size() == kMostMetrics) break;
    if (taken.contains(drawing.in_profiles(one.channel))) continue;
    auto metric = drawing.of(one);
    if (metric && taken.insert(metric->channel).second) metrics.push_back(*std::move(metric));
  }
  return metrics;
}

}  // namespace reveal
