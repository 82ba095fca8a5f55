// TCP segments for this node were lost on their way. The receive queue of the affected node fills out of order; the
// retransmissions are counted by its peers, which are not at fault.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/round_trips.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_tcp_fault {
namespace {

constexpr const char* kQueued = "tcpext.TCPOFOQueue";
constexpr const char* kTwice = "tcpext.TCPDSACKOldSent";

/// Segments that came twice answer a retransmission without a loss: reordering and late acknowledgements look so. Per
/// segment out of order, real losses had at most .1 of them, a busy link that changes the order .15 to .35. That is
/// close: where the sender is a node of the job, too, its count decides when the nodes' summaries are merged.
bool is_reordering(const RuleContext& context, double twice, double out_of_order) {
  return twice >= context.threshold("max_duplicate_share") * out_of_order;
}

/// Packets that are lost because a queue on their way is full have waited in it before; those that a bad link loses
/// have not.
void compare_round_trips(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> all,
                         bool twice_measured) {
  constexpr double kLonger = 1.5;
  if (const auto trips = round_trips(context, at, all); trips && trips->ratio() >= kLonger) {
    finding.evidence.push_back(evidence_of(context, *trips, at));
    finding.runner_up = {"net.congestion",
                         fmt::format("not ruled out: round trips took {:.1f} times as long, as through "
                                     "a full queue",
                                     trips->ratio())};
  } else if (!twice_measured) {
    finding.runner_up = {"", "reordering cannot be ruled out: tcpext.TCPDSACKOldSent was not measured"};
  } else {
    finding.runner_up = {"net.tcp_retrans_intrinsic",
                         "reordering: reordered segments are sent twice, and few arrived twice"};
  }
}

/// Losses of ssh, of NFS or of monitoring are not those of the job. Nothing where its connections were not measured.
std::optional<double> elsewhere(const RuleContext& context, Interval at, std::span<const Interval> unusual,
                                double excess) {
  const auto share = share_of_job(context, at, unusual, LossDirection::received, excess);
  return share && *share < context.threshold("min_job_share") ? share : std::nullopt;
}

void blame_others(Finding& finding, double share) {
  finding.severity = Severity::info;
  finding.impact = {.seconds = std::nullopt,
                    .percent = std::nullopt,
                    .how = "not known: few of the losses were counted on the job's connections"};
  finding.sentence += fmt::format(
      " Only {:.0f} % of them were counted on the job's connections; the others may be those of ssh, NFS or "
      "connections "
      "that had ended.",
      100 * share);
}

Finding describe(const RuleContext& context, const MetricSeries& queued, const MetricSeries& received,
                 const Excursion& excursion, const InsideOutside& segments, std::span<const Interval> all) {
  const auto others = elsewhere(context, excursion.at, all, excursion.inside - excursion.outside);
  Finding finding = finding_at(context, excursion.at, others ? JobValues{{"elsewhere", "yes"}} : JobValues());
  const double length = context.seconds(excursion.at.length());
  const auto confirmed = confirmed_by(context.detection, excursion.at);
  finding.confidence = confirmed || excursion.beyond ? Confidence::likely : Confidence::possible;
  set_loss_of_segments(context, finding, segments, excursion.at);
  finding.evidence = {evidence_of(context, queued, excursion), evidence_of(context, received, segments, excursion.at)};
  finding.evidence.front().detectors = seen_by(confirmed);
  const auto dropped = rate(context, "softnet.dropped", 1, "/s");
  if (const auto change = inside_outside(context, dropped, excursion.at, all); change && change->inside > 0) {
    finding.evidence.push_back(evidence_of(context, *dropped, *change, excursion.at));
  }
  finding.sentence = fmt::format(
      "Packets to {} were probably lost on the way for {}: {} % of the TCP segments arrived out of order (usually {} "
      "%).",
      context.telemetry.node, duration(length), number(100 * excursion.inside / segments.inside),
      number(100 * excursion.outside / segments.outside));
  locate_loss(context, finding, excursion.at, all, LossDirection::received, excursion.inside - excursion.outside);
  compare_round_trips(context, finding, excursion.at, all, !context.channels(kTwice).empty());
  if (others) blame_others(finding, *others);
  return finding;
}

/// A cable that was bad before the job began loses segments all the time: the run has no baseline to compare with.
std::vector<Finding> all_along(const RuleContext& context, const MetricSeries& queued, const MetricSeries& received) {
  const Interval whole{0, context.telemetry.samples};
  const double out_of_order = mean_inside(queued.values, whole);
  const double arrived = mean_inside(received.values, whole);
  const auto twice = rate(context, kTwice, 1, "/s");
  if (!twice || job_seconds(context) < context.threshold("min_seconds")) return {};
  if (!(out_of_order >= context.threshold("min_rate"))) return {};
  if (!(out_of_order >= context.threshold("min_share_always") * arrived)) return {};
  const double duplicates = mean_inside(twice->values, whole);
  if (is_reordering(context, duplicates, out_of_order)) return {};
  const auto others = elsewhere(context, whole, {}, out_of_order);
  Finding finding = finding_at(context, whole, others ? JobValues{{"elsewhere", "yes"}} : JobValues());
  finding.confidence = Confidence::possible;
  finding.severity = Severity::notice;
  finding.impact.how = "not known: no part of the run was without it";
  const auto observed = [&](const MetricSeries& signal, double value) {
    Evidence evidence = evidence_of(context, signal, {.inside = value, .outside = kNaN}, whole);
    evidence.expected.reset();
    evidence.detectors = {Method::kernel_counter};
    return evidence;
  };
  finding.evidence = {observed(queued, out_of_order), observed(received, arrived), observed(*twice, duplicates)};
  finding.sentence = fmt::format(
      "Packets to {} were probably lost on the way throughout the run: {} % of the TCP segments arrived out of order "
      "({}/s of {}/s).",
      context.telemetry.node, number(100 * out_of_order / arrived), number(out_of_order), number(arrived));
  locate_loss(context, finding, whole, {}, LossDirection::received, out_of_order);
  finding.runner_up = {"net.congestion", "a slow port cannot be ruled out: no part of the run was faster"};
  if (others) blame_others(finding, *others);
  return {finding};
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries queued = needed(rate(context, kQueued, 1, "/s"), "tcpext.TCPOFOQueue (/proc/net/netstat)");
  const MetricSeries received = needed(rate(context, "tcp.InSegs", 1, "/s"), "tcp.InSegs (/proc/net/snmp)");
  const auto excursions = excursions_of(context, queued.values, context.threshold("min_rate"),
                                        context.threshold("min_score"), Cause::external);
  const std::vector<Interval> all = places(excursions);
  const auto twice = rate(context, kTwice, 1, "/s");
  std::vector<Finding> findings;
  bool usual = true;  // no excursion is an event of its own
  for (const Excursion& excursion : excursions) {
    const double excess = excursion.inside - excursion.outside;
    // Four or more alike are normal for these connections, or their loss comes with each burst of their traffic.
    if (excursion.recurring || excess < context.threshold("min_ratio") * excursion.outside) continue;
    const auto segments = inside_outside(context, received, excursion.at, all);
    // A job that exchanges data for most of its time has its side effects for most of its time.
    if (excursion.most && segments && segments->excess() > 0.5 * segments->outside) continue;
    usual = false;
    if (!segments || excess < context.threshold("min_share") * segments->inside) continue;
    const auto duplicates = inside_outside(context, twice, excursion.at, all);
    if (duplicates && is_reordering(context, duplicates->excess(), excess)) continue;
    findings.push_back(describe(context, queued, received, excursion, *segments, all));
  }
  return usual ? all_along(context, queued, received) : findings;
}

const RegisteredRule kRule{{
    .id = "net.tcp_retrans_fault",
    .former_id = "net.tcp_loss",
    .title = "Packets to a node of the job were probably lost",
    .looks_for =
        "Intervals in which segments arrived out of order at a node (tcpext.TCPOFOQueue against tcp.InSegs): "
        "earlier segments were lost on the path to it. tcp.peer.out_of_order shows the peer. If the sender is a "
        "node of the job, its counters decide: segments that it sent again (tcp.peer.retransmits) and that had "
        "not arrived already (tcp.peer.duplicates) were lost.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 70,
    .look_alikes = "net.tcp_retrans_intrinsic,net.congestion,irq.softirq_saturation,net.nic_rx_drop,losses of ssh or "
                   "NFS",
    .proof = Proof::real,
    .thresholds =
        {{"min_rate", 5, "/s", "least rate of segments out of order above the usual level"},
         {"min_seconds", 3, "s", "shortest interval"},
         kMinScore,
         {"min_ratio", 4, "ratio", "least ratio to the usual level"},
         {"min_share", 0.001, "ratio", "least part of the received segments that came out of order"},
         {"min_share_always", 0.01, "ratio", "least part out of order if the loss lasts for the whole run"},
         {"max_duplicate_share", 0.2, "ratio",
          "segments received twice per segment out of order, above which segments were only reordered"},
         {"min_missing_share", 0.2, "ratio",
          "share of retransmitted segments that were really lost; below it, the segments were only reordered"},
         {"min_missing", 0.0005, "ratio", "lost segments per segment received: from here on, always a loss"},
         {"min_job_share", 0.2, "ratio",
          "share of the losses on the job's connections, if measured; below it, the finding is a remark"},
         kMinLostSeconds,
         kMinLostPercent},
    .user_remedy = {"nstat -az | grep -E 'TcpRetransSegs|TCPOFOQueue'   # on {node}, while a job runs",
                    {"#SBATCH --exclude={nodes}   # until it is repaired", "job,!elsewhere"}},
    .admin_remedy =
        {"grep . /sys/class/net/*/statistics/*err* /sys/class/net/*/statistics/*drop*   # on {node}",
         "Check the error counters of the switch port of {node}.",
         "cat /proc/net/softnet_stat   # on {node}: second column, packets that this kernel dropped itself"},
    .verify = {.expected = "tcpext.TCPOFOQueue of the node is at the level of its peers"},
    .sources = {"https://www.kernel.org/doc/html/latest/networking/snmp_counter.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_tcp_fault
