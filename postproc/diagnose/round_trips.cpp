#include "postproc/diagnose/round_trips.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/signals.h"
#include "postproc/numerics/median.h"

namespace reveal {
namespace {

double median_where(std::span<const double> series, bool inside, std::span<const Interval> intervals) {
  std::vector<double> values;
  for (std::size_t t = 0; t < series.size(); ++t) {
    const bool covered = std::any_of(intervals.begin(), intervals.end(),
                                     [t](const Interval& each) { return t >= each.begin && t < each.end; });
    if (covered == inside && !std::isnan(series[t])) values.push_back(series[t]);
  }
  return values.empty() ? kNaN : upper_median<double>(values);
}

}  // namespace

std::optional<RoundTrips> round_trips(const RuleContext& context, Interval at, std::span<const Interval> unusual) {
  const std::vector<std::string> own = addresses_in(context.begin);
  std::vector<Interval> excluded(unusual.begin(), unusual.end());
  excluded.push_back(at);
  for (Interval& each : excluded) {
    each.end = std::min(context.telemetry.samples, each.end + context.steps(kPeerRowsLateSeconds));
  }
  const Interval late = excluded.back();
  std::vector<RoundTrips> peers;
  for (const std::size_t channel : context.channels("tcp.peer.rtt")) {
    const std::string& peer = context.telemetry.channels[channel].instance;
    if (is_loopback(peer) || std::find(own.begin(), own.end(), peer) != own.end()) continue;
    const auto series = context.telemetry.series(channel);
    RoundTrips trips{peer, median_where(series, true, {{late}}), median_where(series, false, excluded)};
    if (!std::isnan(trips.inside) && trips.usual > 0) peers.push_back(std::move(trips));
  }
  if (peers.empty()) return std::nullopt;
  const auto middle = peers.begin() + static_cast<std::ptrdiff_t>(peers.size() / 2);
  std::nth_element(peers.begin(), middle, peers.end(),
                   [](const RoundTrips& a, const RoundTrips& b) { return a.ratio() < b.ratio(); });
  return *middle;
}

Evidence evidence_of(const RuleContext& context, const RoundTrips& trips, Interval at) {
  const MetricSeries smoothed{"tcp.peer.rtt", "ns", {}};
  Evidence evidence = evidence_of(context, smoothed, {trips.inside, trips.usual, 0}, at);
  evidence.instance = trips.peer;
  evidence.feature = "median";
  evidence.detectors = {Method::kernel_counter};
  return evidence;
}

}  // namespace reveal
