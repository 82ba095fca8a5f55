// The node's own queue in front of an interface dropped packets of the job. TCP notices it at once and sends less; it
// does not count these packets as retransmitted.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/network_interface.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_tx_queue {
namespace {

/// The kind of the queue decides which line helps: a shaper limits the rate; only one kind holds as many packets as the
/// interface's txqueuelen.
JobValues values_of(const RuleContext& context, const std::string& interface) {
  JobValues values{{"interface", interface}};
  const std::string key = "net." + interface + ".qdisc";
  const auto at_end = fact_in(context.end, key);  // "fq tbf": replaced while the job ran
  const std::string kinds = at_end ? std::string(*at_end) : context.snapshot_value(key);
  std::string_view rest = kinds;
  for (std::string_view kind = next_word(rest); !kind.empty(); kind = next_word(rest)) {
    const bool shaper = kind == "tbf" || kind == "htb" || kind == "hfsc" || kind == "netem";
    if (!values.contains("shaper")) values["qdisc"] = kind;
    if (shaper) values["shaper"] = "yes";
  }
  if (kinds == "pfifo_fast") values["fifo"] = "yes";
  return values;
}

/// Packets that never left the node are not counted as sent again; how many were, tells whether others were lost.
RunnerUp runner_up(const std::optional<MetricSeries>& again, Interval at) {
  const double sent_again = again ? mean_inside(again->values, at) : kNaN;
  return {"net.tcp_retrans_fault",
          std::isnan(sent_again)
              ? "these packets never left the node; segments sent again were not measured"
              : fmt::format("these packets never left the node; {} segments/s were sent again", number(sent_again))};
}

std::optional<Finding> describe(const RuleContext& context, const std::string& instance, const MetricSeries& drops,
                                const Excursion& excursion, std::span<const Interval> all) {
  const bool always = std::isnan(excursion.outside);
  const auto packets = context.channels("net.tx_packets", instance);
  if (packets.empty()) return std::nullopt;
  const double sent = mean_inside(channel_rate(context, packets.front(), 1, "packets/s").values, excursion.at);
  const double share = excursion.inside / (sent + excursion.inside);
  if (!(share >= context.threshold(always ? "min_share_always" : "min_share"))) return std::nullopt;
  const std::string interface = interface_name(instance);
  Finding finding = finding_at(context, excursion.at, values_of(context, interface));
  finding.instances = {instance};
  finding.confidence = always ? Confidence::possible : Confidence::likely;
  set_loss_of_segments(context, finding,
                       inside_outside(context, rate(context, "tcp.OutSegs", 1, "segments/s"), excursion.at, all),
                       excursion.at, Segments::sent);
  Evidence evidence = evidence_of(context, drops, excursion);
  evidence.instance = instance;
  evidence.detectors = {Method::interval_search, Method::kernel_counter};
  if (always) evidence.detectors = {Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  const auto again = rate(context, "tcp.RetransSegs", 1, "segments/s");
  add_contrast(context, finding, again, excursion.at, all);
  finding.sentence = fmt::format(
      "The queue of {} in front of {} dropped {} packets a second {}, {} % of those to be sent{}: the node sent more "
      "than the queue passes on.",
      context.telemetry.node, interface, number(excursion.inside),
      always ? "throughout the run" : "for " + duration(context.seconds(excursion.at.length())), number(100 * share),
      always ? "" : fmt::format(" (usually {} a second)", number(std::max(0.0, excursion.outside))));
  finding.runner_up = runner_up(again, excursion.at);
  return finding;
}

/// A queue without packets has no row, one that was replaced no more of them: neither drops anything.
MetricSeries without_gaps_at_ends(MetricSeries drops) {
  const auto measured = [](double value) { return !std::isnan(value); };
  const auto first = std::find_if(drops.values.begin(), drops.values.end(), measured);
  const auto last = std::find_if(drops.values.rbegin(), drops.values.rend(), measured).base();
  if (first == drops.values.end()) return drops;
  std::fill(drops.values.begin(), first, 0.0);
  std::fill(last, drops.values.end(), 0.0);
  return drops;
}

std::vector<Excursion> intervals(const RuleContext& context, const MetricSeries& drops) {
  const double least = context.threshold("min_rate");
  auto found = excursions_of(context, drops.values, least, context.threshold(kMinScore.name));
  std::erase_if(found, [](const Excursion& excursion) { return excursion.recurring; });
  return or_whole_run(context, drops.values, least, std::move(found));
}

std::vector<Finding> check(const RuleContext& context) {
  const auto channels = context.channels("net.qdisc_drops");
  if (channels.empty()) throw Unavailable("not measured: net.qdisc_drops");
  std::vector<Finding> findings;
  for (const std::size_t channel : channels) {
    const MetricSeries drops = without_gaps_at_ends(channel_rate(context, channel, 1, "packets/s"));
    const auto found = intervals(context, drops);
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
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
                 "the interface sends (net.tx_packets), and the kind of that queue (net.*.qdisc).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 66,
    .look_alikes = "net.tcp_retrans_fault,net.congestion,a queue that always drops a little",
    .proof = Proof::real,
    .thresholds = {{"min_rate", 20, "packets/s", "least rate of dropped packets, beyond the usual one"},
                   {"min_share", 0.0005, "ratio", "least share of the packets to be sent"},
                   {"min_share_always", 0.01, "ratio",
                    "the same share, if the queue drops packets throughout the run: some queues drop a few by design"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {"tc -s qdisc show dev {interface}   # in the next run: dropped, overlimits, and the rate of a shaper"},
    .advice = {{"Send less per step: gradient accumulation, or compression by DDP communication hooks.", "torch"}},
    .admin_remedy = {{"tc qdisc replace dev {interface} root fq   # changes the node until its next boot: instead of "
                      "{qdisc}, if that limit is not needed",
                      "shaper"},
                     {"ip link set dev {interface} txqueuelen 10000   # changes the node until its next boot: {qdisc} "
                      "holds at most so many packets",
                      "fifo"},
                     {"tc -d qdisc show dev {interface}   # {qdisc}: its limit, and those of the queues below it",
                      "qdisc,!shaper,!fifo"},
                     {"tc -d qdisc show dev {interface}   # its kind: a shaper (tbf, htb), or a queue that is short",
                      "!qdisc"}},
    .verify = "dropped of tc -s qdisc does not increase while the job runs",
    .sources = {"https://man7.org/linux/man-pages/man8/tc.8.html",
                "https://man7.org/linux/man-pages/man8/tc-tbf.8.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_tx_queue
