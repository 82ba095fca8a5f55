// The node's own queue in front of an interface dropped packets of the job. TCP notices it at once and sends less; it
// does not count these packets as retransmitted.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_tx_queue {
namespace {

std::optional<Finding> describe(const RuleContext& context, const std::string& interface, const MetricSeries& drops,
                                const Excursion& excursion, std::span<const Interval> all) {
  const auto packets = context.channels("net.tx_packets", interface);
  if (packets.empty()) return std::nullopt;
  const double sent = mean_inside(channel_rate(context, packets.front(), 1, "packets/s").values, excursion.at);
  const double share = excursion.inside / (sent + excursion.inside);
  if (!(share >= context.threshold("min_share"))) return std::nullopt;
  Finding finding = finding_at(context, excursion.at, {{"interface", interface}});
  finding.instances = {interface};
  finding.confidence = Confidence::likely;
  set_loss_of_segments(context, finding,
                       inside_outside(context, rate(context, "tcp.OutSegs", 1, "segments/s"), excursion.at, all),
                       excursion.at, Segments::sent);
  Evidence evidence = evidence_of(context, drops, excursion);
  evidence.instance = interface;
  evidence.detectors = {Method::interval_search, Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  finding.sentence = fmt::format(
      "The queue of {} in front of {} dropped {} packets a second for {}, {} % of those to be sent (usually {} a "
      "second): the node sent more than the queue passes on.",
      context.telemetry.node, interface, number(excursion.inside), duration(context.seconds(excursion.at.length())),
      number(100 * share), number(std::max(0.0, excursion.outside)));
  finding.runner_up = {"net.tcp_retrans_fault", "these packets never left the node, so nothing was sent again"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const auto channels = context.channels("net.qdisc_drops");
  if (channels.empty()) throw Unavailable("not measured: net.qdisc_drops");
  std::vector<Finding> findings;
  for (const std::size_t channel : channels) {
    const MetricSeries drops = channel_rate(context, channel, 1, "packets/s");
    const auto found =
        excursions_of(context, drops.values, context.threshold("min_rate"), context.threshold(kMinScore.name));
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      if (excursion.recurring) continue;
      auto finding = describe(context, context.telemetry.channels[channel].instance, drops, excursion, all);
      if (finding) findings.push_back(*std::move(finding));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.tx_queue_drop",
    .title = "The node's own queue drops packets before they are sent",
    .looks_for = "Intervals in which the queue in front of an interface drops packets (net.qdisc_drops), against what "
                 "the interface sends (net.tx_packets).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 66,
    .look_alikes = "net.tcp_retrans_fault,net.congestion,a queue that always drops a little",
    .proof = Proof::test_double,
    .thresholds = {{"min_rate", 20, "packets/s", "least rate of dropped packets, beyond the usual one"},
                   {"min_share", 0.0005, "ratio", "least share of the packets to be sent"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {"tc -s qdisc show dev {interface}   # in the next run: dropped, overlimits, and the rate of a shaper"},
    .advice = {{"Send less per step: gradient accumulation, or compression by DDP communication hooks.", "torch"}},
    .admin_remedy = {"tc qdisc replace dev {interface} root fq   # instead of a shaper (tbf, htb) that nobody needs",
                     "ip link set dev {interface} txqueuelen 10000   # absorbs bursts of a link that is fast enough"},
    .verify = "dropped of tc -s qdisc does not increase while the job runs",
    .sources = {"https://man7.org/linux/man-pages/man8/tc.8.html",
                "https://man7.org/linux/man-pages/man8/tc-tbf.8.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_tx_queue
