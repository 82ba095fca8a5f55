// An event of one node, or a phase of the job: whether the peers' trends moved at the same time.
#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/present_values.h"
#include "postproc/peers/peers.h"

namespace reveal {
namespace {

/// How much a channel's trend rose in a span against the time before and after it, and by how much it might have done
/// so by chance.
struct Rise {
  double by = kNaN;
  double noise = 0;
};

Rise rise_in(const NodeProfile& profile, const ProfileChannel& channel, TimeSpan span) {
  constexpr std::int64_t kAroundPoints = 5;
  if (profile.sparkline_step_ns <= 0 || !channel.has_line()) return {};
  const auto first =
      static_cast<std::ptrdiff_t>((span.begin_utc_ns - profile.begin_utc_ns) / profile.sparkline_step_ns);
  const auto last =
      static_cast<std::ptrdiff_t>((span.end_utc_ns - 1 - profile.begin_utc_ns) / profile.sparkline_step_ns);
  const auto around = std::max<std::ptrdiff_t>(kAroundPoints, 2 * (last - first + 1));
  std::vector<double> inside;
  std::vector<double> outside;
  for (std::ptrdiff_t i = std::max<std::ptrdiff_t>(0, first - around);
       i <= last + around && i < static_cast<std::ptrdiff_t>(channel.trend->line.size()); ++i) {
    const double value = sparkline_value(channel, static_cast<std::size_t>(i));
    if (!std::isnan(value)) (i >= first && i <= last ? inside : outside).push_back(value);
  }
  if (inside.empty() || outside.size() < 3) return {};
  const double usual = median_of(outside);
  for (double& value : outside) value = std::abs(value - usual);
  return {mean_of(inside) - usual, kSpreadOverMad * median_of(outside) / std::sqrt(static_cast<double>(inside.size()))};
}

}  // namespace

std::optional<double> share_of_peers_alike(const NodeProfile& node, const std::vector<const NodeProfile*>& peers,
                                           TimeSpan span, const std::vector<std::string>& channels) {
  constexpr double kVisible = 0.03;  // share of the line's range: it has 64 levels
  constexpr double kBeyondNoise = 3;
  constexpr double kAlike = 0.5;  // share of the node's own change
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
    const double least = std::max(kVisible * channel->range(), kBeyondNoise * rise.noise);
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
  constexpr std::size_t kLeastCompared = 2;  // one peer is no majority
  if (compared < kLeastCompared) return std::nullopt;
  return static_cast<double>(alike) / static_cast<double>(compared);
}

}  // namespace reveal
