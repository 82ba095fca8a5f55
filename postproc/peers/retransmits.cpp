#include "postproc/peers/retransmits.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/lossy_paths.h"

namespace reveal {
namespace {

constexpr std::size_t kMostSlots = 1000;       // slots of all peers
constexpr double kAllCounted = 95;             // percent; of fewer segments, the count is no account of a sender
constexpr std::int64_t kMostNumber = 500'000;  // largest number in a slot: a summary keeps six digits

using Trend = std::map<std::int64_t, RetransmitCount>;  // by slot

bool was_counted(std::span<const double> series) {
  return std::any_of(series.begin(), series.end(), [](double value) { return !std::isnan(value); });
}

/// Whether only some of the connections to a peer were counted at a time.
bool was_counted_in_part(const Telemetry& telemetry, std::string_view peer) {
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric != kPartCounted || channel.instance != peer) continue;
    const auto series = telemetry.series(i);
    return std::any_of(series.begin(), series.end(), [](double percent) { return percent < kAllCounted; });
  }
  return false;
}

/// The channel with the duplicates of a peer; nothing where they were not counted.
std::optional<std::size_t> duplicates_of(const Telemetry& telemetry, const std::string& peer) {
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric == "tcp.peer.duplicates" && channel.instance == peer && was_counted(telemetry.series(i)))
      return i;
  }
  return std::nullopt;
}

Trend trend_of(const Telemetry& telemetry, std::size_t segments, std::size_t duplicates, double slot_seconds,
               const std::vector<bool>& overtaken) {
  Trend trend;
  const auto again = telemetry.series(segments);
  const auto twice = telemetry.series(duplicates);
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    const double sent = std::isnan(again[t]) ? 0 : again[t];
    const double had = std::isnan(twice[t]) ? 0 : twice[t];
    if (sent <= 0 && had <= 0) continue;
    const double second = static_cast<double>(t) * telemetry.step_seconds;
    RetransmitCount count{.segments = sent, .duplicates = had};
    if (overtaken[t]) {
      count.overtaken = sent;
      count.overtaken_duplicates = had;
    }
    trend[static_cast<std::int64_t>(second / slot_seconds)] += count;
  }
  return trend;
}

/// At most `all`; 0 where the list is shorter, or damaged.
double part_in(const std::vector<double>& list, std::size_t slot, double all) {
  return slot < list.size() && list[slot] > 0 ? std::min(list[slot], std::max(0.0, all)) : 0;
}

Trend in_longer_slots(const Trend& trend) {
  Trend longer;
  for (const auto& [slot, again] : trend) longer[slot / 2] += again;
  return longer;
}

}  // namespace

Retransmits retransmits_of(const Telemetry& telemetry) {
  const double slot_seconds = std::max(1.0, telemetry.step_seconds);
  Retransmits all{.begin_utc_ns = telemetry.begin_utc_ns,
                  .slot_ns = std::llround(slot_seconds * static_cast<double>(kSecond)),
                  .peers = {}};
  const std::vector<bool> overtaken = overtaken_steps(telemetry);
  std::map<std::string, Trend> trends;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric != "tcp.peer.retransmits" || !was_counted(telemetry.series(i))) continue;
    const auto duplicates = duplicates_of(telemetry, channel.instance);
    if (!duplicates || was_counted_in_part(telemetry, channel.instance)) continue;
    trends[channel.instance] = trend_of(telemetry, i, *duplicates, slot_seconds, overtaken);
  }
  const auto too_many = [&trends] {
    std::size_t slots = 0;
    std::int64_t last = 0;
    for (const auto& [peer, trend] : trends) {
      slots += trend.size();
      if (!trend.empty()) last = std::max(last, trend.rbegin()->first);
    }
    return last > 0 && (slots > kMostSlots || last > kMostNumber);
  };
  while (too_many()) {
    for (auto& [peer, trend] : trends) trend = in_longer_slots(trend);
    all.slot_ns *= 2;
  }
  for (const auto& [peer, trend] : trends) {
    RetransmitsTo& to = all.peers.emplace_back();
    to.peer = peer;
    to.slots.reserve(trend.size());
    to.segments.reserve(trend.size());
    to.duplicates.reserve(trend.size());
    const bool overtook =
        std::any_of(trend.begin(), trend.end(), [](const auto& each) { return each.second.overtaken > 0; });
    if (overtook) {
      to.overtaken.reserve(trend.size());
      to.overtaken_duplicates.reserve(trend.size());
    }
    for (const auto& [slot, again] : trend) {
      to.slots.push_back(static_cast<double>(slot));
      to.segments.push_back(again.segments);
      to.duplicates.push_back(again.duplicates);
      if (!overtook) continue;
      to.overtaken.push_back(again.overtaken);
      to.overtaken_duplicates.push_back(again.overtaken_duplicates);
    }
  }
  return all;
}

std::optional<RetransmitCount> retransmits_in(const Retransmits& all, std::span<const std::string> addresses,
                                              TimeSpan span) {
  std::optional<RetransmitCount> sum;
  // Doubles are used because values from an untrusted file do not overflow them.
  const auto origin = static_cast<double>(all.begin_utc_ns);
  const auto slot_ns = static_cast<double>(all.slot_ns);
  const double first = static_cast<double>(span.begin_utc_ns) - origin;
  const double last = static_cast<double>(span.end_utc_ns) - origin + kPeerRowsLateSeconds * kSecond;
  for (const RetransmitsTo& to : all.peers) {
    if (std::find(addresses.begin(), addresses.end(), to.peer) == addresses.end()) continue;
    if (!sum) sum.emplace();
    const std::size_t slots = std::min({to.slots.size(), to.segments.size(), to.duplicates.size()});
    for (std::size_t i = 0; i < slots; ++i) {
      const double begin = to.slots[i] * slot_ns;
      if (!(begin < last && begin + slot_ns > first)) continue;
      if (std::isnan(to.segments[i]) || std::isnan(to.duplicates[i])) continue;
      *sum += {.segments = to.segments[i],
               .duplicates = to.duplicates[i],
               .overtaken = part_in(to.overtaken, i, to.segments[i]),
               .overtaken_duplicates = part_in(to.overtaken_duplicates, i, to.duplicates[i])};
    }
  }
  return sum;
}

}  // namespace reveal
