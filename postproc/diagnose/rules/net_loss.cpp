// TCP segments for this node were lost on their way. The node that misses them is the one whose receive queue fills out
// of order; the retransmissions are counted by its peers, who are not at fault.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Segments that came twice answer a retransmission without a loss: reordering and late acknowledgements look so.
bool is_reordering(const RuleContext& context, Interval at, std::span<const Interval> all, double out_of_order) {
  const auto twice = rate(context, "tcpext.TCPDSACKOldSent", 1, "/s");
  const auto change = contrast(context, twice, at, all);
  return change && change->excess() >= context.threshold("max_duplicate_share") * out_of_order;
}

std::string reordering_seen(const RuleContext& context, Interval at, std::span<const Interval> all) {
  const auto change = contrast(context, rate(context, "tcpext.TCPDSACKOldSent", 1, "/s"), at, all);
  return change ? "reordering: few segments came twice, so they were missing, not late"
                : "reordering cannot be ruled out: tcpext.TCPDSACKOldSent was not measured";
}

/// Lost in this node's own kernel or at a port that is too slow, which a rule before this one has said.
bool is_explained(const RuleContext& context, Interval at) {
  const TimeSpan span = context.span(at.begin, at.end);
  return std::any_of(context.found.begin(), context.found.end(), [&](const Finding& finding) {
    return (finding.id == "irq.softirq_saturation" || finding.id == "net.congestion") &&
           std::any_of(finding.intervals.begin(), finding.intervals.end(), [&](const TimeSpan& theirs) {
             return theirs.begin_utc_ns < span.end_utc_ns && span.begin_utc_ns < theirs.end_utc_ns;
           });
  });
}

std::vector<Finding> check(const RuleContext& context) {
  const Signal queued = needed(rate(context, "tcpext.TCPOFOQueue", 1, "/s"), "tcpext.TCPOFOQueue (/proc/net/netstat)");
  const Signal received = needed(rate(context, "tcp.InSegs", 1, "/s"), "tcp.InSegs (/proc/net/snmp)");
  const auto elevations = elevations_of(context, queued.values, context.threshold("min_rate"),
                                        context.threshold("min_score"), Doing::of_others);
  const std::vector<Interval> all = places(elevations);
  std::vector<Finding> findings;
  for (const Elevation& elevation : elevations) {
    const double excess = elevation.inside - elevation.outside;
    // Four or more alike are what these connections do anyway.
    if (elevation.recurring || excess < context.threshold("min_ratio") * elevation.outside) continue;
    const auto segments = contrast(context, received, elevation.at, all);
    // A job that exchanges data for most of its time has what comes with that for most of its time.
    if (elevation.most && segments && segments->excess() > 0.5 * segments->outside) continue;
    if (!segments || excess < context.threshold("min_share") * segments->inside) continue;
    if (is_reordering(context, elevation.at, all, excess) || is_explained(context, elevation.at)) continue;

    Finding finding = finding_at(context, elevation.at);
    const double length = context.seconds(elevation.at.length());
    const auto confirmed = confirmed_by(context.detection, elevation.at);
    finding.confidence = confirmed || elevation.beyond ? Confidence::likely : Confidence::possible;
    set_loss_of_segments(context, finding, segments, length);
    finding.evidence = {evidence_of(context, queued, elevation),
                        evidence_of(context, received, *segments, elevation.at)};
    finding.evidence.front().detectors = seen_by(confirmed);
    for (const std::string_view metric : {"tcp.RetransSegs", "softnet.dropped"}) {
      add_contrast(context, finding, rate(context, metric, 1, "/s"), elevation.at, all);
    }
    finding.sentence =
        fmt::format("{} lost TCP segments for {} s: {}/s arrived out of order (usually {}/s) of {}/s received.",
                    context.telemetry.node, number(length), number(elevation.inside), number(elevation.outside),
                    number(segments->inside));
    finding.runner_up = {"", reordering_seen(context, elevation.at, all)};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.tcp_loss",
    .title = "Packets for a node of the job were lost",
    .looks_for = "Intervals in which segments arrived out of order at a node (tcpext.TCPOFOQueue against tcp.InSegs): "
                 "segments before them were lost on their way to it.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 70,
    .look_alikes = "reordering,irq.softirq_saturation,net.congestion",
    .proof = Proof::real,
    .thresholds = {{"min_rate", 5, "/s", "least segments out of order above the usual level"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"min_ratio", 4, "ratio", "least excess over the usual level"},
                   {"min_share", 0.001, "ratio", "least part of the received segments that came out of order"},
                   {"max_duplicate_share", 0.5, "ratio", "segments received twice per one out of order: reordering"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"nstat -az | grep -E 'TcpRetransSegs|TCPOFOQueue'   # on {nodes}, while a job runs",
                    {"#SBATCH --exclude={nodes}                          # until it is repaired", "job"}},
    .admin_remedy =
        {"grep . /sys/class/net/*/statistics/*err* /sys/class/net/*/statistics/*drop*   # on {nodes}; and its switch "
         "port",
         "cat /proc/net/softnet_stat                           # second column: dropped by this kernel itself"},
    .verify = "tcpext.TCPOFOQueue of the node stays at the level of its peers",
    .sources = {"https://www.kernel.org/doc/html/latest/networking/snmp_counter.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal
