// Packets to a node are lost because its port carries less than the job sends: they arrive at an even rate that is
// hardly ever exceeded, well below what the same link carried before, and wait in the port's full queue. Random loss
// lets bursts through at full speed, and empties the queues, since connections that lose segments send less at once.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/round_trips.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_congestion {
namespace {

/// The limit: what exceeds it lies at the ends of the interval, which are known to some samples only.
constexpr double kLimitQuantile = 0.9;
constexpr double kPeakQuantile = 0.95;
constexpr double kAtTheLimit = 0.05;    // rates that differ from it by less are met by the limit, not by coincidence
constexpr double kLeastSlowed = 0.02;   // less arrived than usual: else nothing was held up
constexpr double kLeastSegments = 100;  // /s; of fewer, the part out of order says little
/// A queue that is full lets no round trip become this much shorter than usual.
constexpr double kShorterRoundTrip = 0.75;

std::vector<double> sorted_values(std::span<const double> series, Interval at, std::span<const Interval> excluded,
                                  bool inside) {
  std::vector<double> values;
  for (std::size_t t = 0; t < series.size(); ++t) {
    const auto covers = [t](const Interval& other) { return t >= other.begin && t < other.end; };
    const bool here = inside ? covers(at) : std::none_of(excluded.begin(), excluded.end(), covers) && !covers(at);
    if (here && !std::isnan(series[t])) values.push_back(series[t]);
  }
  std::sort(values.begin(), values.end());
  return values;
}

double at_quantile(const std::vector<double>& sorted, double quantile) {
  if (sorted.empty()) return kNaN;
  return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
}

struct Plateau {
  double limit = 0;
  double usual_peak = 0;
  double share = 0;  // share of the time at the limit
  std::optional<RoundTrips> trips = std::nullopt;
};

std::optional<Plateau> plateau(const RuleContext& context, const MetricSeries& received, Interval at,
                               std::span<const Interval> excluded) {
  const auto inside = sorted_values(received.values, at, excluded, true);
  const auto outside = sorted_values(received.values, at, excluded, false);
  Plateau found{at_quantile(inside, kLimitQuantile), at_quantile(outside, kPeakQuantile)};
  if (!(found.limit > 0) || !(found.limit <= context.threshold("max_peak") * found.usual_peak)) return std::nullopt;
  const auto first = std::lower_bound(inside.begin(), inside.end(), (1 - kAtTheLimit) * found.limit);
  const auto last = std::upper_bound(first, inside.end(), (1 + kAtTheLimit) * found.limit);
  found.share = static_cast<double>(last - first) / static_cast<double>(inside.size());
  if (found.share >= context.threshold("min_at_limit")) return found;
  found.trips = round_trips(context, at, excluded);
  const bool waited = found.trips && found.trips->ratio() >= kShorterRoundTrip;
  return waited && found.share >= context.threshold("min_at_limit_waiting") ? std::optional(found) : std::nullopt;
}

/// Segments out of order per segment received: bursts of a busy job have many of them when its port is not limited.
MetricSeries share_out_of_order(const MetricSeries& queued, const MetricSeries& segments) {
  MetricSeries share{queued.metric, "ratio", queued.values};
  for (std::size_t t = 0; t < share.values.size(); ++t) {
    share.values[t] = segments.values[t] >= kLeastSegments ? queued.values[t] / segments.values[t] : kNaN;
  }
  return share;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries queued =
      needed(rate(context, "tcpext.TCPOFOQueue", 1, "/s"), "tcpext.TCPOFOQueue (/proc/net/netstat)");
  const MetricSeries segments = needed(rate(context, "tcp.InSegs", 1, "/s"), "tcp.InSegs (/proc/net/snmp)");
  const MetricSeries received = needed(traffic_of_interfaces(context, "net.rx_bytes"), "net.rx_bytes (/proc/net/dev)");
  const MetricSeries share = share_out_of_order(queued, segments);
  const auto found =
      excursions_of(context, share.values, context.threshold("min_share"), context.threshold("min_score"));
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    const auto out_of_order = inside_outside(context, queued, excursion.at, all);
    if (excursion.recurring || !out_of_order || out_of_order->excess() < context.threshold("min_rate")) continue;
    const auto flat = plateau(context, received, excursion.at, all);
    const auto bytes = inside_outside(context, received, excursion.at, all);
    if (!flat || !bytes || bytes->outside <= 0 || bytes->inside > (1 - kLeastSlowed) * bytes->outside) continue;
    Finding finding = finding_at(context, excursion.at);
    const double length = context.seconds(excursion.at.length());
    finding.confidence = Confidence::likely;
    set_loss(context, finding, bytes->fall() * length,
             fmt::format("{} arrived instead of {}", quantity(bytes->inside, "bytes/s"),
                         quantity(bytes->outside, "bytes/s")));
    Evidence peak = evidence_of(context, received, {flat->limit, flat->usual_peak, 0}, excursion.at);
    peak.feature = fmt::format("peak; {:.0f} % of the time at that limit", 100 * flat->share);
    finding.evidence = {evidence_of(context, received, *bytes, excursion.at), std::move(peak),
                        evidence_of(context, queued, *out_of_order, excursion.at)};
    if (flat->trips) finding.evidence.push_back(evidence_of(context, *flat->trips, excursion.at));
    if (const auto confirmed = confirmed_by(context.detection, excursion.at)) {
      finding.evidence.front().detectors = confirmed->methods;
    }
    finding.sentence = fmt::format(
        "The network port of {} received no more than {} for {} (otherwise up to {}), and packets to it were lost.",
        context.telemetry.node, quantity(flat->limit, "bytes/s"), duration(length),
        quantity(flat->usual_peak, "bytes/s"));
    locate_loss(context, finding, excursion.at, all, LossDirection::received, out_of_order->excess());
    finding.runner_up = {"net.tcp_retrans_fault",
                         "random loss slows single connections; it does not limit the total rate"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.congestion",
    .title = "A network port limits the job's traffic",
    .looks_for =
        "Intervals in which segments arrived out of order (tcpext.TCPOFOQueue against tcp.InSegs) while the port "
        "received at an even rate (net.rx_bytes), well below its earlier rate; where the rate is less even, "
        "round trips (tcp.peer.rtt) that did not become shorter.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 65,
    .look_alikes = "net.tcp_retrans_fault,a job that sends less",
    .proof = Proof::real,
    .thresholds = {{"min_rate", 5, "/s", "least rate of segments out of order above the usual level"},
                   {"min_share", 0.001, "ratio", "least part of the segments received that is out of order"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"max_peak", 0.6, "ratio", "ratio of the limit to the rate that the same link reached before"},
                   {"min_at_limit", 0.5, "ratio", "least part of the time within 5 % of the limit"},
                   {"min_at_limit_waiting", 0.25, "ratio",
                    "the same if round trips did not become shorter: packets waited in a queue"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --switches=1@0:30:00   # nodes of one switch, where the site has described its switches: "
                     "wait half an hour for them at most",
                     "job"},
                    {"#SBATCH --exclude={nodes}   # if it is always the same port", "job", kIf},
                    "grep -s . /sys/class/net/*/speed   # on {node} and on another node: Mbit/s of each link, which "
                    "must be the same"},
    .advice = {{"Send less per step: gradient accumulation, or compression by DDP communication hooks.", "torch"}},
    .admin_remedy = {"tc -s qdisc show   # on {node}: drops of a shaper",
                     "Check the drops and the policer of the switch port of {node}.",
                     "sysctl net.ipv4.tcp_ecn=1   # changes the node until its next boot: marks instead of drops"},
    .verify = {.expected = "net.rx_bytes of the node reaches the peaks of its peers"},
    .sources = {"https://man7.org/linux/man-pages/man8/tc-tbf.8.html", "https://www.rfc-editor.org/rfc/rfc5681",
                "https://slurm.schedmd.com/sbatch.html#OPT_switches"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_congestion
