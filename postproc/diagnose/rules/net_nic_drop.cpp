// A network interface dropped packets that had already arrived at the node.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/network_interface.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_nic_drop {
namespace {

struct Drops {
  MetricSeries signal;   // packets/s
  std::string instance;  // "ns2/eth0", of its channels
};

double mean_rate(const MetricSeries& series) {
  return mean_inside(series.values, {0, series.values.size()});
}

/// Adds one to the other, under the name of the larger one.
void add(MetricSeries& sum, MetricSeries more) {
  if (mean_rate(more) > mean_rate(sum)) sum.metric.swap(more.metric);
  for (std::size_t t = 0; t < more.values.size(); ++t) sum.values[t] += more.values[t];
}

/// The collector asks a card in one row and has its answer in the next one.
MetricSeries earlier(const RuleContext& context, std::size_t channel, MetricSeries series) {
  const std::size_t late = context.steps(context.telemetry.channels[channel].period_seconds);
  std::vector<double>& values = series.values;
  if (late == 0 || late >= values.size()) return series;
  const auto begin = static_cast<std::ptrdiff_t>(late);
  std::fill(std::move(values.begin() + begin, values.end(), values.begin()), values.end(), kNaN);
  return series;
}

/// Packets that the driver counts under names of its own; nothing where it has no such counter.
std::optional<MetricSeries> dropped_by_card(const RuleContext& context, const std::string& instance) {
  std::optional<MetricSeries> sum;
  for (const std::string_view metric : {"net.rx_no_buffer", "net.rx_overrun"}) {
    for (const std::size_t channel : context.channels(metric, instance)) {
      MetricSeries one = earlier(context, channel, channel_rate(context, channel, 1, "packets/s"));
      if (sum) {
        add(*sum, std::move(one));
      } else {
        sum = std::move(one);
      }
    }
  }
  return sum;
}

/// Packets that one interface dropped for lack of buffers. Some drivers also count unwanted packets here (an unknown
/// protocol, a foreign VLAN): a few a second, next to nothing of the traffic. Others leave out packets that the card
/// itself dropped, or a part of them.
Drops dropped(const RuleContext& context, std::size_t channel) {
  constexpr double kClearlyMore = 1.5;
  const std::string& instance = context.telemetry.channels[channel].instance;
  Drops drops{channel_rate(context, channel, 1, "packets/s"), instance};
  for (const std::size_t overrun : context.channels("net.rx_fifo", instance)) {
    add(drops.signal, channel_rate(context, overrun, 1, "packets/s"));
  }
  auto by_card = dropped_by_card(context, instance);
  if (by_card && mean_rate(*by_card) > kClearlyMore * mean_rate(drops.signal)) drops.signal = *std::move(by_card);
  return drops;
}

/// How many packets the card holds until the node takes them, if its driver reports it.
struct Ring {
  std::optional<std::int64_t> now, most;
};

Ring receive_ring(const RuleContext& context, const std::string& key) {
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
  const bool always = std::isnan(excursion.outside);
  const auto packets = context.channels("net.rx_packets", drops.instance);
  if (packets.empty()) return std::nullopt;
  const double arrived =
      mean_inside(channel_rate(context, packets.front(), 1, "packets/s").values, excursion.at) + excursion.inside;
  const double share = excursion.inside / arrived;
  if (!(share >= context.threshold(always ? "min_share_always" : "min_share"))) return std::nullopt;
  // On a quiet interface, packets that no program wanted are a large share.
  constexpr double kBusy = 1000;  // packets a second
  if (always && arrived < kBusy) return std::nullopt;
  const std::string ring_key = interface_fact_key(drops.instance, "rx_ring");
  const Ring ring = receive_ring(context, ring_key);
  JobValues values = interface_values(drops.instance);
  if (ring.now && ring.most) {
    values.emplace("rx_ring", std::to_string(*ring.now));
    if (*ring.most > *ring.now) values.emplace("rx_ring_most", std::to_string(*ring.most));
  }
  Finding finding = finding_at(context, excursion.at, values);
  finding.instances = {drops.instance};
  finding.confidence = always ? Confidence::possible : Confidence::likely;
  set_loss_of_segments(context, finding,
                       inside_outside(context, rate(context, "tcp.InSegs", 1, "segments/s"), excursion.at, all),
                       excursion.at);
  Evidence evidence = evidence_of(context, drops.signal, excursion);
  evidence.instance = drops.instance;
  evidence.detectors = {Method::interval_search, Method::kernel_counter};
  if (always) evidence.detectors = {Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  if (ring.now && ring.most) {
    finding.evidence.push_back(snapshot_fact(context, ring_key, drops.instance, static_cast<double>(*ring.now),
                                             static_cast<double>(*ring.most), "packets"));
  }
  finding.sentence = fmt::format(
      "{} of {} dropped {} a second {}: {} % of the packets that arrived{}.", drops.instance, context.telemetry.node,
      counted(excursion.inside, "packet"),
      always ? "throughout the run" : "for " + duration(context.seconds(excursion.at.length())), number(100 * share),
      always ? "" : fmt::format(" (usually {} a second)", number(std::max(0.0, excursion.outside))));
  finding.runner_up = {"irq.softirq_saturation", "a full backlog of a cpu: it is counted separately (softnet.dropped)"};
  if (always)
    finding.runner_up = {"", "packets that no program wanted, which some drivers count here, too: not told apart"};
  return finding;
}

std::vector<Excursion> intervals(const RuleContext& context, const MetricSeries& drops) {
  const double least = context.threshold("min_rate");
  auto found = excursions_of(context, drops.values, least, context.threshold(kMinScore.name), Cause::external);
  return or_whole_run(context, drops.values, least, std::move(found));
}

std::vector<Finding> check(const RuleContext& context) {
  const auto channels = channels_that_lead_out(context, "net.rx_dropped");
  if (channels.empty()) throw Unavailable("not measured: net.rx_dropped");
  std::vector<Finding> findings;
  for (const std::size_t channel : channels) {
    const Drops drops = dropped(context, channel);
    const auto found = intervals(context, drops.signal);
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      if (were_of_the_backlog(context, excursion)) continue;
      if (auto finding = describe(context, drops, excursion, all)) findings.push_back(*std::move(finding));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.nic_rx_drop",
    .title = "A network interface drops received packets",
    .looks_for = "Intervals in which an interface drops received packets for lack of buffers (net.rx_dropped, "
                 "net.rx_fifo; or the driver's own counters, net.rx_no_buffer and net.rx_overrun, where they are "
                 "higher), or drops many throughout the run; and the length of its ring (net.*.rx_ring).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 63,
    .look_alikes = "irq.softirq_saturation,packets that no program wanted",
    .proof = Proof::guest,
    .thresholds = {{"min_rate", 20, "packets/s", "least rate of dropped packets, beyond the usual one"},
                   {"min_share", 0.0005, "ratio", "least share of the packets that arrived"},
                   {"min_share_always", 0.01, "ratio",
                    "the same share, if the interface drops packets throughout the run: some are unwanted"},
                   {"max_backlog", 0.5, "ratio",
                    "largest part of them that the backlog of a cpu dropped instead of the interface"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"ip -s link show {interface}   # in the next run: dropped and overrun packets"},
    .advice = {"Leave the cpu that serves the interface free of ranks."},
    .admin_remedy = {"ethtool -G {interface} rx {rx_ring_most}   # changes the node, only without jobs: a longer ring, "
                     "now {rx_ring} packets; may take the link down",
                     {"ethtool -G {interface} rx 8192   # changes the node, only without jobs: at most the value that "
                      "ethtool -g {interface} shows; may take the link down",
                      "!rx_ring"},
                     "ethtool -S {interface} | grep -iE 'drop|discard|miss|buf'   # which queue, and why",
                     {"Look in the network namespace of the interface: on {node}, lsns -t net lists a process of each "
                      "namespace, and nsenter -n -t with its number, before ethtool -S, enters it.",
                      "in_namespace"}},
    .verify = {.expected = "the drop counter of the interface does not grow"},
    .sources = {"https://docs.kernel.org/networking/statistics.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_nic_drop
