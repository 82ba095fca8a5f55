#include "postproc/diagnose/lossy_ways.h"

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

constexpr double kLeastTraffic = 0.05;  // of the node's segments: fewer make no peer of the job
constexpr double kOneWay = 0.8;         // of what was lost, on one way of several
constexpr double kAll = 0.995;
constexpr double kLeastShare = 0.1;         // of what was lost, to be named
constexpr double kAsMuchAsTheOthers = 0.2;  // losses per segment, of those of the worst way
constexpr std::size_t kMostNamed = 3;
constexpr double kOfTheJob = 0.8;             // of what the node lost, on the job's connections, to tell of them
constexpr double kMostNotToldApart = 0.2;     // of what was lost
constexpr std::string_view kRest = "others";  // the sum over all peers without a row of their own

struct Way {
  std::string peer;  // an address: a node with several of them has several ways
  MetricSeries lost;
  double inside = 0;  // lost per second
  double usual = 0;
  double traffic = 0;  // segments per second

  [[nodiscard]] double excess() const { return std::max(0.0, inside - usual); }
};

/// Not between nodes, and nothing is lost there.
bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

double value_or_zero(double value) {
  return std::isnan(value) ? 0 : value;
}

std::vector<Way> ways_of(const RuleContext& context, Interval at, std::span<const Interval> unusual,
                         LossToward toward) {
  const bool here = toward == LossToward::here;
  std::vector<Interval> excluded(unusual.begin(), unusual.end());
  excluded.push_back(at);
  for (Interval& each : excluded)
    each.end = std::min(context.telemetry.samples, each.end + context.steps(kPeerRowsLateSeconds));
  const Interval late = excluded.back();
  const std::vector<std::string> own = addresses_in(context.begin);
  std::vector<Way> ways;
  for (const std::size_t channel : context.channels(here ? kMissedFromPeer : "tcp.peer.retransmits")) {
    Way way{.peer = context.telemetry.channels[channel].instance, .lost = channel_rate(context, channel, 1, "/s")};
    if (is_loopback(way.peer) || std::find(own.begin(), own.end(), way.peer) != own.end()) continue;
    way.inside = value_or_zero(mean_inside(way.lost.values, late));
    way.usual = value_or_zero(mean_outside(way.lost.values, excluded));
    for (const std::size_t with :
         context.channels(here ? "tcp.peer.segments_received" : "tcp.peer.segments_sent", way.peer)) {
      way.traffic = value_or_zero(mean_inside(channel_rate(context, with, 1, "/s").values, late));
    }
    ways.push_back(std::move(way));
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.excess() > b.excess(); });
  return ways;
}

/// All of them lose as much of what they carry as the worst does.
bool all_alike(std::span<const Way> ways) {
  double worst = 0;
  for (const Way& way : ways) worst = std::max(worst, way.excess() / std::max(way.traffic, 1e-9));
  return std::all_of(ways.begin(), ways.end(),
                     [worst](const Way& way) { return way.excess() >= kAsMuchAsTheOthers * worst * way.traffic; });
}

std::string sentence_of(const std::string& node, std::span<const Way> ways, double all, LossToward toward) {
  const bool here = toward == LossToward::here;
  const std::string_view whose = here ? "the job's losses" : "the segments that the job sent again";
  // "on the way from 10.0.0.1 to n2"
  const auto way_of = [&](const std::string& peers) {
    return here ? fmt::format("were on the way from {} to {}", peers, node) : fmt::format("went to {}", peers);
  };
  const double share = std::min(1.0, ways.front().excess() / all);
  if (share < kOneWay && ways.size() > 1 && all_alike(ways)) {
    const std::string addresses = ways.size() == 2 ? "both" : fmt::format("all {}", ways.size());
    return here ? fmt::format(
                      " The job's losses came from {} peer addresses: if these belong to several nodes, the link of {} "
                      "loses packets.",
                      addresses, node)
                : fmt::format(" The segments that the job sent again went to {} peer addresses.", addresses);
  }
  if (share >= kOneWay) {
    const std::string part = share >= kAll ? "All" : fmt::format("{:.0f} %", 100 * share);
    const std::string among =
        ways.size() == 1 ? "" : fmt::format(", one of {} peer addresses with significant traffic", ways.size());
    return fmt::format(" {} of {} {}{}.", part, whose, way_of(ways.front().peer), among);
  }
  std::vector<std::string> named;
  double located = 0;
  for (const Way& way : ways) {
    if (way.excess() < kLeastShare * all || named.size() == kMostNamed) continue;
    named.push_back(way.peer);
    located += way.excess();
  }
  if (located < kOneWay * all) return "";
  return fmt::format(" Most of {} {}; {} has {} peer addresses.", whose, way_of(listed(named, kMostNamed)), node,
                     ways.size());
}

}  // namespace

void locate_loss(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> unusual,
                 LossToward toward, double excess) {
  std::vector<Way> ways = ways_of(context, at, unusual, toward);
  double all = 0;
  double traffic = 0;
  double not_told_apart = 0;
  for (const Way& way : ways) {
    all += way.excess();
    traffic += way.traffic;
    if (way.peer == kRest) not_told_apart += way.excess();
  }
  // The ways are told over their own, longer interval.
  const std::size_t end = std::min(context.telemetry.samples, at.end + context.steps(kPeerRowsLateSeconds));
  const double lost = all * context.seconds(end - at.begin);
  if (!(lost >= kLeastLost) || !(lost >= kOfTheJob * excess * context.seconds(at.length()))) return;
  if (not_told_apart > kMostNotToldApart * all) return;
  std::erase_if(ways, [&](const Way& way) {
    return way.peer == kRest || (way.traffic < kLeastTraffic * traffic && way.excess() < kLeastShare * all);
  });
  if (ways.empty()) return;
  const std::string sentence = sentence_of(context.telemetry.node, ways, all, toward);
  if (sentence.empty()) return;
  finding.sentence += sentence;
  for (std::size_t i = 0; i < std::min(kMostNamed, ways.size()); ++i) {
    const Way& way = ways[i];
    if (way.excess() < kLeastShare * all) break;
    Evidence evidence = evidence_of(context, way.lost, {way.inside, way.usual, 0}, at);
    evidence.instance = way.peer;
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
