#include "postproc/diagnose/lossy_paths.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/lists.h"

namespace reveal {
namespace {

constexpr double kLeastTraffic = 0.05;  // share of the node's segments: fewer make no peer of the job
constexpr double kOnePath = 0.8;        // share of the loss on one path of several
constexpr double kAll = 0.995;
constexpr double kLeastShare = 0.1;         // share of the loss from which a path is named
constexpr double kAsMuchAsTheOthers = 0.2;  // losses per segment, of those of the worst path
constexpr std::size_t kMostNamed = 3;
constexpr double kOfTheJob = 0.8;  // share of the node's loss on the job's connections from which it is reported
constexpr double kMostUnattributed = 0.2;     // share of the loss
constexpr double kLeastPart = 0.05;           // share of a peer's segments; whole percent are too rough below it
constexpr std::string_view kRest = "others";  // the sum over all peers without a row of their own
constexpr std::string_view kOtherPeers = "other peers";  // its name for readers

struct Path {
  std::string peer;  // an address: a node with several of them has several paths
  MetricSeries lost;
  double inside = 0;  // lost per second
  double usual = 0;
  double traffic = 0;  // segments per second; of all connections, as far as it is known which part was counted
  double counted = 1;  // part of the segments that was counted

  [[nodiscard]] double counted_excess() const { return std::max(0.0, inside - usual); }
  /// Connections that were not counted lose as much.
  [[nodiscard]] double excess() const { return counted_excess() / counted; }
};

double value_or_zero(double value) {
  return std::isnan(value) ? 0 : value;
}

/// The part of a peer's segments that was counted in an interval; 1 where all of them were.
double counted_part(const RuleContext& context, std::string_view peer, Interval at) {
  for (const std::size_t channel : context.channels(kPartCounted, peer)) {
    const double percent = mean_inside(context.telemetry.series(channel), at);
    if (!std::isnan(percent)) return std::clamp(percent / 100, 0.01, 1.0);
  }
  return 1;
}

MetricSeries lost_on_channel(const RuleContext& context, std::size_t channel, LossDirection direction) {
  MetricSeries lost = channel_rate(context, channel, 1, "/s");
  if (direction != LossDirection::lost) return lost;
  const std::string& peer = context.telemetry.channels[channel].instance;
  for (const std::size_t duplicates : context.channels("tcp.peer.duplicates", peer)) {
    const MetricSeries arrived = channel_rate(context, duplicates, 1, "/s");
    for (std::size_t t = 0; t < lost.values.size(); ++t) lost.values[t] -= value_or_zero(arrived.values[t]);
  }
  return lost;
}

std::vector<Path> paths_of(const RuleContext& context, Interval at, std::span<const Interval> unusual,
                           LossDirection direction) {
  const bool received = direction == LossDirection::received;
  std::vector<Interval> excluded(unusual.begin(), unusual.end());
  excluded.push_back(at);
  for (Interval& each : excluded)
    each.end = std::min(context.telemetry.samples, each.end + context.steps(kPeerRowsLateSeconds));
  const Interval late = excluded.back();
  const std::vector<std::string> own = addresses_in(context.begin);
  std::vector<Path> paths;
  for (const std::size_t channel : context.channels(received ? kMissedFromPeer : "tcp.peer.retransmits")) {
    Path path{.peer = context.telemetry.channels[channel].instance,
              .lost = lost_on_channel(context, channel, direction)};
    if (is_loopback(path.peer) || std::find(own.begin(), own.end(), path.peer) != own.end()) continue;
    path.inside = value_or_zero(mean_inside(path.lost.values, late));
    path.usual = value_or_zero(mean_outside(path.lost.values, excluded));
    path.counted = counted_part(context, path.peer, late);
    for (const std::size_t with :
         context.channels(received ? "tcp.peer.segments_received" : "tcp.peer.segments_sent", path.peer)) {
      path.traffic = value_or_zero(mean_inside(channel_rate(context, with, 1, "/s").values, late)) / path.counted;
    }
    paths.push_back(std::move(path));
  }
  std::stable_sort(paths.begin(), paths.end(), [](const Path& a, const Path& b) { return a.excess() > b.excess(); });
  return paths;
}

/// All of them lose the same share of their traffic as the worst.
bool all_alike(std::span<const Path> paths) {
  double worst = 0;
  for (const Path& path : paths) worst = std::max(worst, path.excess() / std::max(path.traffic, 1e-9));
  return std::all_of(paths.begin(), paths.end(),
                     [worst](const Path& path) { return path.excess() >= kAsMuchAsTheOthers * worst * path.traffic; });
}

/// `all`: with peers in `uncounted`, the losses of the node, of which they may have the rest.
std::string sentence_of(const std::string& node, std::span<const Path> paths, double all, LossDirection direction,
                        std::span<const std::string> uncounted) {
  const bool received = direction == LossDirection::received;
  const std::string_view whose = received ? "the job's losses" : "the segments that the job sent again";
  // "on the path from 10.0.0.1 to n2"
  const auto path_of = [&](const std::string& peers) {
    return received ? fmt::format("were on the path from {} to {}", peers, node) : fmt::format("went to {}", peers);
  };
  const double share = std::min(1.0, paths.front().excess() / all);
  if (share < kOnePath && paths.size() > 1 && all_alike(paths)) {
    const std::string addresses =
        (paths.size() == 2 ? "both" : fmt::format("all {}", paths.size())) + (uncounted.empty() ? "" : " counted");
    return received
               ? fmt::format(
                     " The job's losses came from {} peer addresses: if these belong to several nodes, the link of "
                     "{} loses packets.",
                     addresses, node)
               : fmt::format(" The segments that the job sent again went to {} peer addresses.", addresses);
  }
  if (share >= kOnePath) {
    const std::string part =
        share >= kAll ? "All" : fmt::format("{}{:.0f} %", uncounted.empty() ? "" : "At least ", 100 * share);
    const std::string among =
        paths.size() == 1 ? "" : fmt::format(", one of {} peer addresses with significant traffic", paths.size());
    return fmt::format(" {} of {} {}{}.", part, whose, path_of(paths.front().peer), among);
  }
  std::vector<std::string> named;
  double located = 0;
  for (const Path& path : paths) {
    if (path.excess() < kLeastShare * all || named.size() == kMostNamed) continue;
    named.push_back(path.peer);
    located += path.excess();
  }
  if (located < kOnePath * all) return "";
  return fmt::format(" Most of {} {}; {} has {} peer addresses.", whose, path_of(listed(named, kMostNamed)), node,
                     paths.size());
}

std::string uncounted_words(const std::vector<std::string>& uncounted) {
  if (uncounted.empty()) return "";
  const bool one = uncounted.size() == 1 && uncounted.front() != kOtherPeers;
  return fmt::format(" Too few segments of {} were counted to compare {}.", listed(uncounted, kMostNamed),
                     one ? "it" : "them");
}

/// The paths are counted over their own, longer interval.
double late_seconds(const RuleContext& context, Interval at) {
  const std::size_t end = std::min(context.telemetry.samples, at.end + context.steps(kPeerRowsLateSeconds));
  return context.seconds(end - at.begin);
}

}  // namespace

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

std::optional<double> share_of_job(const RuleContext& context, Interval at, std::span<const Interval> unusual,
                                   LossDirection direction, double excess) {
  const double lost = excess * context.seconds(at.length());
  const std::vector<Path> paths = paths_of(context, at, unusual, direction);
  // Older kernels do not count the segments out of order of a connection.
  const bool counted = std::any_of(paths.begin(), paths.end(), [&](const Path& path) {
    return !std::isnan(mean_inside(path.lost.values, {at.begin, context.telemetry.samples}));
  });
  double of_job = 0;
  std::optional<double> least_counted;
  for (const Path& path : paths) {
    if (path.counted >= kLeastPart) {
      of_job += path.excess();
      least_counted = std::min(least_counted.value_or(1), path.counted);
    } else if (path.traffic > 0) {
      of_job += path.traffic;  // it may have lost all that it carried
    } else {
      return std::nullopt;
    }
  }
  if (!counted || !least_counted || !(lost * *least_counted >= kLeastLost)) return std::nullopt;
  return std::min(1.0, of_job * late_seconds(context, at) / lost);
}

void locate_loss(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> unusual,
                 LossDirection direction, double excess) {
  std::vector<Path> paths = paths_of(context, at, unusual, direction);
  std::vector<std::string> uncounted;
  for (const Path& path : paths) {
    if (path.counted < kLeastPart) uncounted.emplace_back(path.peer == kRest ? kOtherPeers : path.peer);
  }
  std::erase_if(paths, [](const Path& path) { return path.counted < kLeastPart; });
  double all = 0;
  double counted = 0;
  double traffic = 0;
  double unattributed = 0;
  for (const Path& path : paths) {
    all += path.excess();
    counted += path.counted_excess();
    traffic += path.traffic;
    if (path.peer == kRest) unattributed += path.excess();
  }
  const double seconds = late_seconds(context, at);
  if (!(counted * seconds >= kLeastLost)) return;
  // The node counts the segments of all peers: those that were counted well had most of its losses, or none is named.
  const double of_node = excess * context.seconds(at.length()) / seconds;
  if (!(all >= kOfTheJob * of_node)) return;
  if (unattributed > kMostUnattributed * all) return;
  std::erase_if(paths, [&](const Path& path) {
    return path.peer == kRest || (path.traffic < kLeastTraffic * traffic && path.excess() < kLeastShare * all);
  });
  if (paths.empty()) return;
  const double most = uncounted.empty() ? all : std::max(all, of_node);
  const std::string sentence = sentence_of(context.telemetry.node, paths, most, direction, uncounted);
  if (sentence.empty()) return;
  finding.sentence += sentence + uncounted_words(uncounted);
  for (std::size_t i = 0; i < std::min(kMostNamed, paths.size()); ++i) {
    const Path& path = paths[i];
    if (path.excess() < kLeastShare * all) break;
    Evidence evidence = evidence_of(context, path.lost, {path.inside, path.usual, 0}, at);
    evidence.instance = path.peer;
    evidence.detectors = {Method::kernel_counter};
    finding.evidence.push_back(std::move(evidence));
  }
}

std::vector<std::string> addresses_in(const Snapshot& facts) {
  constexpr std::string_view kKey = "address.";
  std::vector<std::string> addresses;
  for (const auto& [key, value] : facts) {
    if (!key.starts_with(kKey)) continue;
    std::string_view rest = value;
    for (auto address = next_word(rest); !address.empty(); address = next_word(rest)) addresses.emplace_back(address);
  }
  return addresses;
}

}  // namespace reveal
