// A network interface dropped packets that had already arrived at the node.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_nic_drop {
namespace {

struct Drops {
  MetricSeries signal;  // packets/s
  std::string interface;
};

/// Packets that one interface dropped for lack of buffers. Some drivers also count unwanted packets here (an unknown
/// protocol, a foreign VLAN): a few a second, next to nothing of the traffic.
std::optional<Drops> dropped(const RuleContext& context, std::size_t channel) {
  const std::string& interface = context.telemetry.channels[channel].instance;
  Drops drops{channel_rate(context, channel, 1, "packets/s"), interface};
  for (const std::size_t overrun : context.channels("net.rx_fifo", interface)) {
    const MetricSeries more = channel_rate(context, overrun, 1, "packets/s");
    for (std::size_t t = 0; t < more.values.size(); ++t) drops.signal.values[t] += more.values[t];
  }
  return drops;
}

/// How many packets the card holds until the node takes them, if its driver reports it.
struct Ring {
  std::optional<std::int64_t> now, most;
};

Ring receive_ring(const RuleContext& context, const std::string& instance) {
  const std::string key = "net." + instance.substr(instance.rfind('/') + 1) + ".rx_ring";  // "ns2/eth0"
  return {parse_int(context.snapshot_value(key)), parse_int(context.snapshot_value(key + "_most"))};
}

/// Packets that did not fit into a cpu's backlog are counted at the interface, too, and a longer ring is no remedy for
/// it.
bool were_of_the_backlog(const RuleContext& context, const Excursion& excursion) {
  const auto backlog = rate(context, "softnet.dropped", 1, "packets/s");
  return backlog && mean_inside(backlog->values, excursion.at) >= context.threshold("max_backlog") * excursion.inside;
}

std::optional<Finding> describe(const RuleContext& context, const Drops& drops, const Excursion& excursion,
                                std::span<const Interval> all) {
  const auto packets = context.channels("net.rx_packets", drops.interface);
  if (packets.empty()) return std::nullopt;
  const double arrived =
      mean_inside(channel_rate(context, packets.front(), 1, "packets/s").values, excursion.at) + excursion.inside;
  const double share = excursion.inside / arrived;
  if (!(share >= context.threshold("min_share"))) return std::nullopt;
  const Ring ring = receive_ring(context, drops.interface);
  JobValues values = {{"interface", drops.interface}};
  if (ring.now && ring.most) {
    values.emplace("rx_ring", std::to_string(*ring.now));
    if (*ring.most > *ring.now) values.emplace("rx_ring_most", std::to_string(*ring.most));
  }
  Finding finding = finding_at(context, excursion.at, values);
  finding.instances = {drops.interface};
  finding.confidence = Confidence::likely;
  set_loss_of_segments(context, finding,
                       inside_outside(context, rate(context, "tcp.InSegs", 1, "segments/s"), excursion.at, all),
                       excursion.at);
  Evidence evidence = evidence_of(context, drops.signal, excursion);
  evidence.instance = drops.interface;
  evidence.detectors = {Method::interval_search, Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  if (ring.now && ring.most) {
    finding.evidence.push_back(snapshot_fact(context, "net." + drops.interface + ".rx_ring", drops.interface,
                                             static_cast<double>(*ring.now), static_cast<double>(*ring.most),
                                             "packets"));
  }
  finding.sentence = fmt::format(
      "{} of {} dropped {} packets a second for {}: {} % of the packets that arrived (usually {} a "
      "second).",
      drops.interface, context.telemetry.node, number(excursion.inside),
      duration(context.seconds(excursion.at.length())), number(100 * share), number(std::max(0.0, excursion.outside)));
  finding.runner_up = {"irq.softirq_saturation", "a full backlog of a cpu: it is counted separately (softnet.dropped)"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const auto channels = context.channels("net.rx_dropped");
  if (channels.empty()) throw Unavailable("not measured: net.rx_dropped");
  std::vector<Finding> findings;
  for (const std::size_t channel : channels) {
    const auto drops = dropped(context, channel);
    const auto found = excursions_of(context, drops->signal.values, context.threshold("min_rate"),
                                     context.threshold(kMinScore.name), Cause::external);
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      if (were_of_the_backlog(context, excursion)) continue;
      if (auto finding = describe(context, *drops, excursion, all)) findings.push_back(*std::move(finding));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.nic_rx_drop",
    .title = "A network interface drops received packets",
    .looks_for = "Intervals in which an interface drops received packets for lack of buffers (net.rx_dropped, "
                 "net.rx_fifo), and the length of its ring (net.*.rx_ring).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 63,
    .look_alikes = "irq.softirq_saturation",
    .proof = Proof::guest,
    .thresholds = {{"min_rate", 20, "packets/s", "least rate of dropped packets, beyond the usual one"},
                   {"min_share", 0.0005, "ratio", "least share of the packets that arrived"},
                   {"max_backlog", 0.5, "ratio",
                    "largest part of them that the backlog of a cpu dropped instead of the interface"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"ip -s link show {interface}   # in the next run: dropped and overrun packets"},
    .advice = {"Leave the cpu that serves the interface free of ranks."},
    .admin_remedy = {"ethtool -G {interface} rx {rx_ring_most}   # a longer ring, now {rx_ring} packets; may take the "
                     "link down: only without jobs",
                     {"ethtool -G {interface} rx 8192   # at most the value that ethtool -g {interface} shows; may "
                      "take the link down: only without jobs",
                      "!rx_ring"},
                     "ethtool -S {interface} | grep -iE 'drop|discard|miss|buf'   # which queue, and why"},
    .verify = "the drop counter of the interface does not grow",
    .sources = {"https://docs.kernel.org/networking/statistics.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_nic_drop
