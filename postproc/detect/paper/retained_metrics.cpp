#include "postproc/detect/paper/retained_metrics.h"

#include <Eigen/Core>
#include <algorithm>
#include <unordered_map>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/derived.h"

namespace reveal {

namespace {

/// Metrics of reveal itself and metrics added by a site are always recorded; computed channels never.
bool is_for_selection(const Channel& channel) {
  return channel.subsystem != Subsystem::self && channel.family != kDerivedFamily &&
         !channel.family.starts_with("site/");
}

/// The mean over nodes, pair by pair.
class MeanCorrelation {
 public:
  void add(const std::vector<Channel>& all, const ChannelCorrelation& correlation) {
    std::vector<Eigen::Index> rows, places;
    for (std::size_t i = 0; i < correlation.channels.size(); ++i) {
      const Channel& channel = all[correlation.channels[i]];
      if (!is_for_selection(channel)) continue;
      rows.push_back(static_cast<Eigen::Index>(i));
      places.push_back(place_of(channel));
    }
    const auto size = static_cast<Eigen::Index>(channels_.size());
    const Eigen::Index before = sum_.rows();
    sum_.conservativeResize(size, size);
    nodes_.conservativeResize(size, size);
    for (Eigen::MatrixXf* grown : {&sum_, &nodes_}) {
      grown->rightCols(size - before).setZero();
      grown->bottomRows(size - before).setZero();
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        sum_(places[i], places[j]) += correlation.r(rows[i], rows[j]);
        nodes_(places[i], places[j]) += 1;
      }
    }
  }

  /// Channels that never move on the same node are not known to move together.
  [[nodiscard]] Eigen::MatrixXf mean() const { return sum_.array() / nodes_.array().max(1.0F); }
  [[nodiscard]] const std::vector<Channel>& channels() const { return channels_; }

 private:
  Eigen::Index place_of(const Channel& channel) {
    const auto [found, added] = places_.emplace(channel.name(), static_cast<Eigen::Index>(channels_.size()));
    if (added) channels_.push_back(channel);
    if (channels_.size() > kMostPrunedChannels) {
      throw Error("more than " + std::to_string(kMostPrunedChannels) +
                  " channels changed, too many to compare in pairs; record fewer with --probes");
    }
    return found->second;
  }

  std::unordered_map<std::string, Eigen::Index> places_;
  std::vector<Channel> channels_;
  Eigen::MatrixXf sum_, nodes_;
};

bool has_instance_of_its_job(const Channel& channel) {
  return channel.scope == Scope::process || channel.scope == Scope::job || channel.scope == Scope::cgroup;
}

}  // namespace

void RetainedMetrics::note(const Channel& channel) {
  seen_.emplace(channel.metric, channel.instance);
  if (has_instance_of_its_job(channel)) of_the_job_.insert(channel.metric);
}

void RetainedMetrics::add_workload(const std::vector<Telemetry>& nodes) {
  add_workload(nodes.size(), [&nodes](std::size_t i) {
    return NodePieces{.count = 1, .load = [&node = nodes[i]](std::size_t) { return node; }};
  });
}

void RetainedMetrics::add_workload(std::size_t nodes, const std::function<NodePieces(std::size_t)>& node) {
  MeanCorrelation mean;
  for (std::size_t i = 0; i < nodes; ++i) {
    const NodePieces pieces = node(i);
    std::vector<Channel> channels;  // all pieces have the same ones
    const ChannelCorrelation correlation = correlate(pieces.count, [&](std::size_t number) {
      Telemetry piece = pieces.load(number);
      if (channels.empty()) channels = piece.channels;
      return piece;
    });
    for (const Channel& channel : channels) {
      if (is_for_selection(channel)) note(channel);
    }
    mean.add(channels, correlation);
  }
  std::vector<std::string> metrics;
  for (const Channel& channel : mean.channels()) {
    metrics.push_back(channel.metric);
    moved_.emplace(channel.metric, channel.instance);
  }
  for (const std::size_t row : representatives(mean.mean(), metrics, threshold_)) {
    const Channel& channel = mean.channels()[row];
    retained_.emplace(channel.metric, channel.instance);
  }
}

bool RetainedMetrics::keeps(const Key& key, Unmoved unmoved) const {
  return retained_.contains(key) || (unmoved == Unmoved::kept && !moved_.contains(key));
}

std::vector<std::string> RetainedMetrics::lines(Unmoved unmoved) const {
  std::vector<std::string> lines;
  for (auto first = seen_.begin(); first != seen_.end();) {
    const std::string& metric = first->first;
    const auto last = std::find_if(first, seen_.end(), [&](const Key& key) { return key.first != metric; });
    const auto kept = [&](const Key& key) { return keeps(key, unmoved); };
    // The ranks of a job's own metric are peers: all of them are kept or none. Ranks that never moved do not count.
    const bool of_job = of_the_job_.contains(metric);
    const auto moves = [&](const Key& key) { return moved_.contains(key); };
    const bool any_retained = std::any_of(first, last, [&](const Key& key) { return retained_.contains(key); });
    const bool all_still = unmoved == Unmoved::kept && std::none_of(first, last, moves);
    if (of_job ? any_retained || all_still : std::all_of(first, last, kept)) {
      lines.push_back(metric);
    } else if (!of_job) {
      for (auto key = first; key != last; ++key) {
        if (kept(*key)) lines.push_back(key->second.empty() ? metric : metric + '/' + key->second);
      }
    }
    first = last;
  }
  return lines;
}

RetainedMetrics::Count RetainedMetrics::count() const {
  return {.moved = moved_.size(), .retained = retained_.size(), .unmoved = seen_.size() - moved_.size()};
}

}  // namespace reveal
