#include "postproc/peers/peer_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "postproc/numerics/median.h"

namespace reveal {
namespace {

constexpr std::size_t kSubsystemCount = static_cast<std::size_t>(Subsystem::self);
/// Half of a node's activities must differ by this factor, e^0.4, for its work to be another. A faulty node differs in
/// some of its channels, and a synchronous job makes all nodes do less together.
constexpr double kAnotherGroup = 0.4;
/// One channel counts no more than this: a rank that alone writes checkpoints is no group of its own.
constexpr double kMostPerChannel = 1;
constexpr double kActive = 0.1;  // log(1 + x/floor): a tenth of the floor
constexpr std::size_t kFewChannels = 3;
constexpr std::size_t kMostGroups = 32;
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

/// Mean over the subsystems of the median difference within each: hundreds of memory counters have one vote.
class Distance {
 public:
  explicit Distance(const ProfileTable& table) : table_(table) {}

  double operator()(const float* a, const float* b) {
    for (auto& list : differences_) list.clear();
    // Without the quotients: they describe how well a node works, not its work.
    for (std::size_t c = 0; c < table_.own_columns(); ++c) {
      const ProfileTable::Column& column = table_.columns[c];
      const auto subsystem = static_cast<std::size_t>(column.subsystem);
      if (column.carried_over || subsystem >= kSubsystemCount || std::isnan(a[c]) || std::isnan(b[c])) continue;
      if (std::max(a[c], b[c]) < kActive) continue;
      differences_[subsystem].push_back(std::min(std::abs(a[c] - b[c]), static_cast<float>(kMostPerChannel)));
    }
    double sum = 0;
    std::size_t votes = 0;
    std::vector<float> few;
    const auto vote = [&](std::vector<float>& list) {
      sum += upper_median<float>(list);
      ++votes;
    };
    for (auto& list : differences_) {
      if (list.size() >= kFewChannels) {
        vote(list);
      } else {
        few.insert(few.end(), list.begin(), list.end());
      }
    }
    if (few.size() >= kFewChannels || (votes == 0 && !few.empty())) vote(few);
    return votes == 0 ? 0 : sum / static_cast<double>(votes);
  }

 private:
  const ProfileTable& table_;
  std::array<std::vector<float>, kSubsystemCount> differences_;
};

std::vector<float> centre_of(const ProfileTable& table, const std::vector<std::size_t>& members) {
  std::vector<float> centre(table.columns.size(), kUnknown);
  std::vector<float> values;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    values.clear();
    for (const std::size_t node : members) {
      if (!std::isnan(table.row(node)[c])) values.push_back(table.row(node)[c]);
    }
    if (!values.empty()) centre[c] = upper_median<float>(values);
  }
  return centre;
}

using Groups = std::vector<std::vector<std::size_t>>;

/// Every node goes to the nearest centre within reach, else it becomes a centre itself.
Groups assign(const ProfileTable& table, const std::vector<std::size_t>& nodes, std::vector<std::vector<float>> centres,
              Distance& distance) {
  Groups groups(centres.size());
  for (const std::size_t node : nodes) {
    double nearest = std::numeric_limits<double>::infinity();
    std::size_t best = 0;
    for (std::size_t k = 0; k < centres.size(); ++k) {
      const double away = distance(table.row(node), centres[k].data());
      if (away < nearest) {
        nearest = away;
        best = k;
      }
    }
    if (nearest > kAnotherGroup && centres.size() < kMostGroups) {
      centres.emplace_back(table.row(node), table.row(node) + table.columns.size());
      groups.emplace_back();
      best = centres.size() - 1;
    }
    groups[best].push_back(node);
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

void add_column(const QuotientColumn& quotient, ProfileTable& table) {
  const auto first = std::find_if(quotient.channels.begin(), quotient.channels.end(),
                                  [](const auto& channel) { return channel != nullptr; });
  table.columns.push_back({.name = (*first)->name,
                           .unit = (*first)->unit,
                           .subsystem = (*first)->subsystem,
                           .floor = quotient.metric->difference});
}

}  // namespace

double activity_of(double value, double floor) {
  return std::log1p(std::max(value, 0.0) / floor);
}

ProfileTable tabulate(const std::vector<const NodeProfile*>& nodes) {
  ProfileTable table;
  table.nodes = nodes.size();
  std::unordered_map<SharedText, std::size_t, SharedText::Hash> index;
  for (const NodeProfile* node : nodes) {
    for (const ProfileChannel& channel : node->channels) {
      if (!index.try_emplace(channel.name, table.columns.size()).second) continue;
      table.columns.push_back({channel.name, channel.unit, channel.subsystem, channel.kind, channel.carried_over,
                               unit_floor(channel.unit, channel.kind)});
    }
  }
  const std::size_t own = table.columns.size();
  table.quotients = quotient_columns(nodes);
  for (const QuotientColumn& quotient : table.quotients) add_column(quotient, table);
  const std::size_t width = table.columns.size();
  table.activity.assign(width * nodes.size(), kUnknown);
  table.channels.assign(width * nodes.size(), nullptr);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const SharedText& zero : nodes[n]->zeros) {
      if (const auto at = index.find(zero); at != index.end()) table.activity[n * width + at->second] = 0;
    }
    for (const ProfileChannel& channel : nodes[n]->channels) {
      const std::size_t c = index.at(channel.name);
      if (channel.unit != table.columns[c].unit) continue;  // the same name for something else
      table.channels[n * width + c] = &channel;
      table.activity[n * width + c] = static_cast<float>(activity_of(channel.mean, table.columns[c].floor));
    }
    for (std::size_t q = 0; q < table.quotients.size(); ++q) {
      const ProfileChannel* channel = table.quotients[q].channels[n].get();
      if (channel == nullptr) continue;
      table.channels[n * width + own + q] = channel;
      table.activity[n * width + own + q] =
          static_cast<float>(activity_of(channel->mean, table.columns[own + q].floor));
    }
  }
  return table;
}

std::vector<std::vector<std::size_t>> find_peer_groups(const ProfileTable& table,
                                                       const std::vector<std::size_t>& nodes) {
  Distance distance(table);
  Groups groups = assign(table, nodes, {}, distance);
  // The first node of a group need not be its typical one: a second round starts from the middles.
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::vector<float>> centres;
  for (const auto& group : groups) {
    std::vector<float> centre = centre_of(table, group);
    const bool known = std::any_of(centres.begin(), centres.end(), [&](const std::vector<float>& other) {
      return distance(centre.data(), other.data()) <= kAnotherGroup;
    });
    if (!known) centres.push_back(std::move(centre));
  }
  groups = assign(table, nodes, std::move(centres), distance);
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return groups;
}

}  // namespace reveal
