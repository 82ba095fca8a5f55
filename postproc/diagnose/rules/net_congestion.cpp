// Packets to a node are lost because its port carries less than the job sends: they arrive at an even rate that is
// never exceeded, well below what the same link carried before. Random loss lets bursts through at full speed.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_congestion {
namespace {

constexpr double kPeakQuantile = 0.95;
/// A rate that is met this closely is the limit, not a coincidence.
constexpr double kAtTheLimit = 0.8;
constexpr double kLeastSlowed = 0.02;  // less arrived than usual: else nothing was held up

std::vector<double> rates_of(std::span<const double> series, Interval at, std::span<const Interval> excluded,
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

double peak_of(const std::vector<double>& sorted) {
  if (sorted.empty()) return std::nan("");
  return sorted[static_cast<std::size_t>(kPeakQuantile * static_cast<double>(sorted.size() - 1))];
}

struct Plateau {
  double peak = 0;
  double usual_peak = 0;
  double share = 0;  // share of the time at the limit
};

std::optional<Plateau> plateau(const RuleContext& context, const MetricSeries& received, Interval at,
                               std::span<const Interval> excluded) {
  const auto inside = rates_of(received.values, at, excluded, true);
  const auto outside = rates_of(received.values, at, excluded, false);
  Plateau found{peak_of(inside), peak_of(outside), 0};
  if (!(found.peak > 0) || !(found.usual_peak > 0)) return std::nullopt;
  const auto at_limit =
      std::count_if(inside.begin(), inside.end(), [&](double value) { return value >= kAtTheLimit * found.peak; });
  found.share = static_cast<double>(at_limit) / static_cast<double>(inside.size());
  if (found.peak > context.threshold("max_peak") * found.usual_peak) return std::nullopt;
  if (found.share < context.threshold("min_at_limit")) return std::nullopt;
  return found;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries queued =
      needed(rate(context, "tcpext.TCPOFOQueue", 1, "/s"), "tcpext.TCPOFOQueue (/proc/net/netstat)");
  const MetricSeries received = needed(traffic_of_interfaces(context, "net.rx_bytes"), "net.rx_bytes (/proc/net/dev)");
  const auto segments = rate(context, "tcp.InSegs", 1, "/s");
  const auto found =
      excursions_of(context, queued.values, context.threshold("min_rate"), context.threshold("min_score"));
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    if (excursion.recurring) continue;
    const auto flat = plateau(context, received, excursion.at, all);
    const auto bytes = inside_outside(context, received, excursion.at, all);
    if (!flat || !bytes || bytes->outside <= 0 || bytes->inside > (1 - kLeastSlowed) * bytes->outside) continue;
    if (segments) {
      const double arrived = mean_inside(segments->values, excursion.at);
      if (excursion.inside - excursion.outside < context.threshold("min_share") * arrived) continue;
    }
    Finding finding = finding_at(context, excursion.at);
    const double length = context.seconds(excursion.at.length());
    finding.confidence = Confidence::likely;
    set_loss(context, finding, bytes->fall() * length,
             fmt::format("{} arrived instead of {}", quantity(bytes->inside, "bytes/s"),
                         quantity(bytes->outside, "bytes/s")));
    Evidence peak = evidence_of(context, received, {flat->peak, flat->usual_peak, 0}, excursion.at);
    peak.feature = fmt::format("95 % quantile; {:.0f} % of the time at that limit", 100 * flat->share);
    finding.evidence = {evidence_of(context, received, *bytes, excursion.at), std::move(peak),
                        evidence_of(context, queued, excursion)};
    if (const auto confirmed = confirmed_by(context.detection, excursion.at)) {
      finding.evidence.front().detectors = confirmed->methods;
    }
    finding.sentence = fmt::format(
        "The network port of {} received no more than {} for {} (otherwise up to {}), and packets to it were lost.",
        context.telemetry.node, quantity(flat->peak, "bytes/s"), duration(length),
        quantity(flat->usual_peak, "bytes/s"));
    locate_loss(context, finding, excursion.at, all, LossDirection::received, excursion.inside - excursion.outside);
    finding.runner_up = {"net.tcp_retrans_fault",
                         "random loss slows single connections; it does not limit the total rate"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.congestion",
    .title = "A network port limits the job's traffic",
    .looks_for = "Intervals in which segments arrived out of order (tcpext.TCPOFOQueue) while the port received at an "
                 "even rate (net.rx_bytes), well below its earlier rate.",
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
                   {"min_at_limit", 0.3, "ratio", "least part of the time within 20 % of the limit"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --switches=1@0:30:00   # nodes of one switch, where the site has described its switches: "
                     "wait half an hour for them at most",
                     "job"},
                    {"#SBATCH --exclude={nodes}   # if it is always the same port", "job", kIf},
                    "grep -s . /sys/class/net/*/speed   # on {node}: does a link run at a lower speed?"},
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
