// The node's own queue in front of an interface dropped packets of the job, or a shaper there held them back. TCP
// notices it at once and sends less; it does not count these packets as retransmitted.
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

/// An effect of the queue on packets, as the kernel counts it.
struct QueueSignal {
  std::string_view metric;
  std::string_view unit;
  std::string_view min_rate;   // names of thresholds
  std::string_view min_share;  // share of the packets to be sent
  bool of_shapers = false;
};
constexpr QueueSignal kDropped{"net.qdisc_drops", "packets/s", "min_rate", "min_share"};
constexpr QueueSignal kHeld{"net.qdisc_overlimits", "/s", "min_held_rate", "min_held_share", true};

/// The kind of the queue decides which line helps: a shaper limits the rate; only one kind holds as many packets as the
/// interface's txqueuelen.
JobValues values_of(const RuleContext& context, const std::string& instance) {
  JobValues values = interface_values(instance);
  const std::string key = interface_fact_key(instance, "qdisc");
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
RunnerUp runner_up(const QueueSignal& signal, const std::optional<MetricSeries>& again, Interval at) {
  const double sent_again = again ? mean_inside(again->values, at) : kNaN;
  const std::string_view fate =
      signal.of_shapers ? "these packets were sent later" : "these packets never left the node";
  return {"net.tcp_retrans_fault", std::isnan(sent_again)
                                       ? fmt::format("{}; segments sent again were not measured", fate)
                                       : fmt::format("{}; {} segments/s were sent again", fate, number(sent_again))};
}

/// It drops and delays packets on purpose, however few are sent.
bool is_emulation(const JobValues& values) {
  return values.contains("shaper") && values.at("qdisc") == "netem";
}

/// "shaper (tbf)"
std::string queue_words(const JobValues& values) {
  if (!values.contains("shaper")) return "queue";
  return fmt::format("{} ({})", is_emulation(values) ? "queue" : "shaper", values.at("qdisc"));
}

std::string_view reason_of(const JobValues& values) {
  if (is_emulation(values)) return "it emulates a slow or lossy network, as it was set up on the node";
  return values.contains("shaper") ? "the node sent more than the rate that is set there"
                                   : "the node sent more than the queue passes on";
}

std::string sentence_of(const RuleContext& context, const QueueSignal& signal, const std::string& interface,
                        const JobValues& values, double share, const Excursion& excursion) {
  const bool always = std::isnan(excursion.outside);
  const std::string lasting = always ? "throughout the run" : "for " + duration(context.seconds(excursion.at.length()));
  const std::string usual = always ? "" : number(std::max(0.0, excursion.outside));
  if (signal.of_shapers) {
    return fmt::format("The {} of {} in front of {} held packets back {} times a second {} (usually {} a second): {}.",
                       queue_words(values), context.telemetry.node, interface, number(excursion.inside), lasting, usual,
                       reason_of(values));
  }
  return fmt::format("The {} of {} in front of {} dropped {} a second {}, {} % of those to be sent{}: {}.",
                     queue_words(values), context.telemetry.node, interface, counted(excursion.inside, "packet"),
                     lasting, number(100 * share), always ? "" : fmt::format(" (usually {} a second)", usual),
                     reason_of(values));
}

/// As a share of the packets to be sent; NaN where those were not counted.
double share_of_packets(const RuleContext& context, const std::string& instance, double affected, Interval at) {
  const auto packets = context.channels("net.tx_packets", instance);
  if (packets.empty()) return kNaN;
  const double sent = mean_inside(channel_rate(context, packets.front(), 1, "packets/s").values, at);
  return affected / (sent + affected);
}

std::optional<Finding> describe(const RuleContext& context, const QueueSignal& signal, const std::string& instance,
                                const MetricSeries& series, const Excursion& excursion, std::span<const Interval> all) {
  const bool always = std::isnan(excursion.outside);
  const double share = share_of_packets(context, instance, excursion.inside, excursion.at);
  if (!(share >= context.threshold(always ? "min_share_always" : signal.min_share))) return std::nullopt;
  const JobValues values = values_of(context, instance);
  Finding finding = finding_at(context, excursion.at, values);
  finding.instances = {instance};
  finding.confidence = always ? Confidence::possible : Confidence::likely;
  set_loss_of_segments(context, finding,
                       inside_outside(context, rate(context, "tcp.OutSegs", 1, "segments/s"), excursion.at, all),
                       excursion.at, Segments::sent);
  Evidence evidence = evidence_of(context, series, excursion);
  evidence.instance = instance;
  evidence.detectors = {Method::interval_search, Method::kernel_counter};
  if (always) evidence.detectors = {Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  const auto again = rate(context, "tcp.RetransSegs", 1, "segments/s");
  add_contrast(context, finding, again, excursion.at, all);
  finding.sentence = sentence_of(context, signal, instance, values, share, excursion);
  finding.runner_up = runner_up(signal, again, excursion.at);
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

/// A job sends in bursts, and so its queue drops in bursts: while it never stops to drop, that is one event.
std::vector<Excursion> joined(std::span<const double> series, double least, std::vector<Excursion> found) {
  std::sort(found.begin(), found.end(), [](const Excursion& a, const Excursion& b) { return a.at.begin < b.at.begin; });
  std::vector<Excursion> events;
  for (const Excursion& each : found) {
    const bool goes_on = !events.empty() && (each.at.begin <= events.back().at.end ||
                                             mean_inside(series, {events.back().at.end, each.at.begin}) >= least);
    if (!goes_on) {
      events.push_back(each);
      continue;
    }
    Excursion& event = events.back();
    event.at.end = std::max(event.at.end, each.at.end);
    event.inside = mean_inside(series, event.at);
    event.score = std::max(event.score, each.score);
    event.recurring = false;
  }
  const std::vector<Interval> all = places(events);
  for (Excursion& event : events) {
    if (const double outside = mean_outside(series, all); !std::isnan(outside)) event.outside = outside;
  }
  return events;
}

std::vector<Excursion> intervals(const RuleContext& context, const QueueSignal& signal, const MetricSeries& series) {
  const double least = context.threshold(signal.min_rate);
  auto found =
      joined(series.values, least, excursions_of(context, series.values, least, context.threshold(kMinScore.name)));
  std::erase_if(found, [](const Excursion& excursion) { return excursion.recurring; });
  // A shaper that always holds packets back has no baseline to compare with.
  return signal.of_shapers ? found : or_whole_run(context, series.values, least, std::move(found));
}

/// The course of a queue and the times of its events.
struct QueueEvents {
  const QueueSignal& signal;
  MetricSeries series;
  std::vector<Excursion> found;
};

QueueEvents events_of(const RuleContext& context, const QueueSignal& signal, std::size_t channel) {
  MetricSeries series = without_gaps_at_ends(channel_rate(context, channel, 1, signal.unit));
  auto found = intervals(context, signal, series);
  return {signal, std::move(series), std::move(found)};
}

/// A shaper that drops packets also holds others back, before and between the drops: that is one event. Where the drops
/// are too few for all of that time, they are an event of their own.
void widen(const RuleContext& context, const std::string& instance, QueueEvents& dropped,
           std::span<const Excursion> held) {
  const double min_share = context.threshold(dropped.signal.min_share);
  for (Excursion& each : dropped.found) {
    for (const Excursion& longer : held) {
      if (overlap(each.at, longer.at) == 0) continue;
      const Interval both{std::min(each.at.begin, longer.at.begin), std::max(each.at.end, longer.at.end)};
      const double inside = mean_inside(dropped.series.values, both);
      if (both.length() == each.at.length()) continue;
      if (!(share_of_packets(context, instance, inside, both) >= min_share)) continue;
      each.score *= (inside - each.outside) / (each.inside - each.outside);
      each.at = both;
      each.inside = inside;
    }
  }
  dropped.found = joined(dropped.series.values, context.threshold(dropped.signal.min_rate), std::move(dropped.found));
}

/// `told`: intervals of findings about this interface, to which those of this one are added.
void add_findings(const RuleContext& context, const QueueEvents& events, const std::string& instance,
                  std::vector<Interval>& told, std::vector<Finding>& findings) {
  const std::vector<Interval> all = places(events.found);
  for (const Excursion& excursion : events.found) {
    const auto meets = [&excursion](const Interval& other) { return overlap(other, excursion.at) > 0; };
    if (std::any_of(told.begin(), told.end(), meets)) continue;
    auto finding = describe(context, events.signal, instance, events.series, excursion, all);
    if (!finding) continue;
    told.push_back(excursion.at);
    findings.push_back(*std::move(finding));
  }
}

std::vector<Finding> check(const RuleContext& context) {
  const auto channels = context.channels(kDropped.metric);
  if (channels.empty()) throw Unavailable("not measured: net.qdisc_drops");
  std::vector<Finding> findings;
  for (const std::size_t channel : channels) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    QueueEvents dropped = events_of(context, kDropped, channel);
    std::vector<QueueEvents> held;
    if (values_of(context, instance).contains("shaper")) {
      const auto channels_of_held = context.channels(kHeld.metric, instance);
      held.reserve(channels_of_held.size());
      for (const std::size_t each : channels_of_held) held.push_back(events_of(context, kHeld, each));
    }
    for (const QueueEvents& each : held) widen(context, instance, dropped, each.found);
    std::vector<Interval> told;
    add_findings(context, dropped, instance, told, findings);
    for (const QueueEvents& each : held) add_findings(context, each, instance, told, findings);
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.tx_queue_drop",
    .title = "The node's own queue drops packets or holds them back",
    .looks_for = "Intervals in which the queue in front of an interface drops packets (net.qdisc_drops), or a shaper "
                 "holds them back (net.qdisc_overlimits), against what the interface sends (net.tx_packets), and the "
                 "kind of that queue (net.*.qdisc).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 66,
    .look_alikes = "net.tcp_retrans_fault,net.congestion,a queue that always drops a little",
    .proof = Proof::real,
    .thresholds = {{"min_rate", 5, "packets/s",
                    "least rate of dropped packets, beyond the usual one; one of TCP may hold 64 KB"},
                   {"min_share", 0.0005, "ratio", "least share of the packets to be sent"},
                   {"min_share_always", 0.01, "ratio",
                    "the same share, if the queue drops packets throughout the run: some queues drop a few by design"},
                   {"min_held_rate", 20, "/s", "least rate at which a shaper holds packets back, beyond the usual one"},
                   {"min_held_share", 0.005, "ratio", "the same as a share of the packets to be sent"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {"tc -s qdisc show dev {interface}   # in the next run: dropped, overlimits, and the rate of a shaper"},
    .advice = {{"Send less per step: gradient accumulation, or compression by DDP communication hooks.", "torch"}},
    .admin_remedy = {{"tc -d qdisc show dev {interface}   # on {node}: {qdisc}, and the rate or loss that is set",
                      "shaper"},
                     {"grep -rsE 'qdisc|TokenBucketFilter|wondershaper' /etc /usr/local/sbin   # on {node}: what may "
                      "have set it (scripts, networkd, NetworkManager); the kernel does not record it",
                      "shaper,!in_namespace"},
                     {"tc qdisc del dev {interface} root   # changes the node until its next boot, if the limit is not "
                      "intended: removes {qdisc}, and the default queues come back",
                      "shaper"},
                     {"ip link set dev {interface} txqueuelen 10000   # changes the node until its next boot: {qdisc} "
                      "holds at most so many packets",
                      "fifo"},
                     {"tc -d qdisc show dev {interface}   # {qdisc}: its limit, and those of the queues below it",
                      "qdisc,!shaper,!fifo"},
                     {"tc -d qdisc show dev {interface}   # its kind: a shaper (tbf, htb), or a queue that is short",
                      "!qdisc"},
                     {"Look in the network namespace of the interface: on {node}, lsns -t net lists a process of each "
                      "namespace, and nsenter -n -t with its number, before tc -s qdisc show, enters it.",
                      "in_namespace"}},
    .verify = {.expected = "dropped and overlimits of tc -s qdisc do not grow"},
    .sources = {"https://man7.org/linux/man-pages/man8/tc.8.html",
                "https://man7.org/linux/man-pages/man8/tc-tbf.8.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_tx_queue
