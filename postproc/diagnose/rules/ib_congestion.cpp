// An InfiniBand port had data to send but no credits: the fabric is full, or a receiver is slow. The specification
// leaves the length of a tick of xmit_wait to the maker of the adapter, so it is only compared with the sent data.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/numerics/median.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::ib_congestion {
namespace {

constexpr double kWordBytes = 4;

struct Waiting {
  MetricSeries ticks;     // per second
  MetricSeries sent;      // bytes/s
  MetricSeries per_word;  // ticks for each word sent; missing where next to nothing was
};

double usual_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values.empty() ? kNaN : upper_median<double>(values);
}

std::optional<Waiting> waiting_of(const RuleContext& context, std::size_t channel) {
  const std::string& instance = context.telemetry.channels[channel].instance;
  const auto bytes = context.channels("ib.xmit_bytes", instance);
  if (bytes.empty()) return std::nullopt;
  Waiting waiting{channel_rate(context, channel, 1, "ticks/s"), channel_rate(context, bytes.front(), 1, "bytes/s"), {}};
  waiting.per_word = {"ib.xmit_wait", "ticks per word", waiting.ticks.values};
  const double least = context.threshold("min_sent") * 1e6;
  for (std::size_t t = 0; t < waiting.per_word.values.size(); ++t) {
    const double sent = waiting.sent.values[t];
    waiting.per_word.values[t] = sent >= least ? waiting.ticks.values[t] / (sent / kWordBytes) : kNaN;
  }
  return waiting;
}

std::optional<Finding> describe(const RuleContext& context, const RdmaPort& port, const Waiting& waiting,
                                const Excursion& excursion, std::span<const Interval> all) {
  const auto ticks = inside_outside(context, waiting.ticks, excursion.at, all);
  const auto sent = inside_outside(context, waiting.sent, excursion.at, all);
  if (excursion.recurring || !ticks || ticks->inside < context.threshold("min_ticks")) return std::nullopt;
  // A job that sends more waits more: its own doing.
  if (!sent || sent->fall() < context.threshold("min_fall")) return std::nullopt;
  JobValues values = port.values();
  if (context.snapshot_value("env.NCCL_IB_ADAPTIVE_ROUTING") == "0") values["no_adaptive_routing"] = "yes";
  Finding finding = finding_at(context, excursion.at, values);
  finding.instances = {port.name};
  finding.confidence = Confidence::likely;
  const double length = context.seconds(excursion.at.length());
  set_loss(context, finding, sent->fall() * length,
           fmt::format("{} left the port instead of {}", quantity(sent->inside, "bytes/s"),
                       quantity(sent->outside, "bytes/s")));
  finding.evidence = {evidence_of(context, waiting.per_word, excursion),
                      evidence_of(context, waiting.ticks, *ticks, excursion.at),
                      evidence_of(context, waiting.sent, *sent, excursion.at)};
  for (Evidence& evidence : finding.evidence) evidence.instance = port.name;
  finding.evidence.front().detectors = seen_by(confirmed_by(context.detection, excursion.at));
  finding.sentence = fmt::format(
      "For {}, {} of {} had data to send but no credits: it waited {} ticks per word sent (usually {}) and sent {} "
      "(usually {}).",
      duration(length), port.name, context.telemetry.node, number(excursion.inside), number(excursion.outside),
      quantity(sent->inside, "bytes/s"), quantity(sent->outside, "bytes/s"));
  finding.runner_up = {"node.straggler", "a slow rank: the job then sends less, too, but its port does not wait"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const auto channels = context.channels("ib.xmit_wait");
  if (channels.empty()) throw Unavailable("not measured: ib.xmit_wait (no InfiniBand adapter that counts it)");
  std::vector<Finding> findings;
  for (const std::size_t channel : channels) {
    const RdmaPort port = rdma_port(context, context.telemetry.channels[channel].instance);
    if (port.is_ethernet()) continue;  // it has no credits: net.pause_congestion's matter
    const auto waiting = waiting_of(context, channel);
    if (!waiting) continue;
    const double usual = usual_of(waiting->per_word.values);
    if (std::isnan(usual)) continue;  // it sent next to nothing
    const double least = std::max(context.threshold("min_per_word"), (context.threshold("min_factor") - 1) * usual);
    const auto found =
        excursions_of(context, waiting->per_word.values, least, context.threshold(kMinScore.name), Cause::external);
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      if (auto finding = describe(context, port, *waiting, excursion, all)) findings.push_back(*std::move(finding));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "ib.congestion_xmit_wait",
    .title = "An InfiniBand port had data but could not send it",
    .looks_for = "Intervals in which a port waits longer than usual for each word it sends (ib.xmit_wait, "
                 "ib.xmit_bytes), and sends less.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 64,
    .look_alikes = "ib.link_degraded,node.straggler,a job that sends more",
    .proof = Proof::test_double,
    .thresholds = {{"min_factor", 3, "ratio", "least waiting per word, in multiples of the usual waiting"},
                   {"min_per_word", 0.01, "ticks", "least waiting per word above the usual"},
                   {"min_ticks", 1e6, "/s", "least ticks in which the port waited"},
                   {"min_sent", 1, "MB/s", "traffic below which waiting is not significant"},
                   {"min_fall", 0.05, "ratio", "least part of the usual traffic that is missing"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --switches=1@0:30:00   # nodes of one switch, where the site has described its switches: "
                     "wait half an hour for them at most",
                     "job"},
                    {"unset NCCL_IB_ADAPTIVE_ROUTING   # it is 0 in this job; on InfiniBand 1 is the default",
                     "no_adaptive_routing"}},
    .admin_remedy = {"perfquery -C {device} -P {port}   # PortXmitWait here, then of the ports along the path: the "
                     "last one at which it grows is the place",
                     {"Describe the switches in topology.conf, so that Slurm keeps jobs below one of them.", "job"},
                     {"Switch on congestion control or adaptive routing.", kOr},
                     "Find the slow receiver: check its PCI Express link, its pause frames, its interrupts."},
    .verify = {.expected = "ib.xmit_wait per word sent is at its usual level"},
    .sources = {"https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband",
                "https://slurm.schedmd.com/sbatch.html#OPT_switches"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::ib_congestion
