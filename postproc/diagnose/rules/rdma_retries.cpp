// RDMA packets were lost, or not acknowledged in time, and sent again.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::rdma_retries {
namespace {

enum class Why : std::uint8_t { lost, timed_out };

/// The counters of drivers: mlx5; rxe; bnxt_re. Packets that came out of order are no row: where a fabric has several
/// paths, they do, and nothing is sent again for it. Nor is a receiver without a buffer (RNR NAK): programs that post
/// theirs late do it on a healthy fabric. Nor is efa: its protocol sends again as a matter of course.
struct RetryCounter {
  std::string_view metric;
  Why why;
};
constexpr RetryCounter kRetryCounters[] = {
    {"rdma.packet_seq_err", Why::lost},
    {"rdma.implied_nak_seq_err", Why::lost},
    {"rdma.roce_adp_retrans", Why::lost},
    {"rdma.local_ack_timeout_err", Why::timed_out},
    {"rdma.roce_adp_retrans_to", Why::timed_out},
    {"rdma.req_transport_retries_exceeded", Why::timed_out},
    {"rdma.rcvd_seq_err", Why::lost},
    {"rdma.completer_retry_err", Why::lost},
    {"rdma.retry_exceeded_err", Why::timed_out},
    {"rdma.seq_err_naks_rcvd", Why::lost},
    {"rdma.to_retransmits", Why::timed_out},
};

struct Retries {
  RdmaPort port;
  MetricSeries all;                   // per second, of the highest counter: one request may be in several
  std::vector<std::size_t> channels;  // that are in it
  std::vector<Why> why;               // reasons of each
  std::vector<double> packets;        // sent per second; empty where the driver counts none
};

std::vector<double> packets_of(const RuleContext& context, const std::string& port) {
  for (const char* metric : {"ib.xmit_packets", "rdma.sent_pkts", "rdma.tx_pkts"}) {
    const auto channels = context.channels(metric, port);
    if (channels.empty()) continue;
    MetricSeries sent = channel_rate(context, channels.front(), 1, "/s");
    if (mean_inside(sent.values, {0, context.telemetry.samples}) > 0) return std::move(sent.values);
  }
  return {};
}

std::vector<Retries> retries_of(const RuleContext& context) {
  std::map<std::string, Retries> by_port;
  for (const RetryCounter& counter : kRetryCounters) {
    for (const std::size_t channel : context.channels(counter.metric)) {
      const std::string& name = context.telemetry.channels[channel].instance;
      if (name.starts_with("efa")) continue;
      Retries& retries = by_port[name];
      const MetricSeries one = channel_rate(context, channel, 1, "/s");
      if (retries.channels.empty()) {
        retries.port = rdma_port(context, name);
        retries.all = {"", "/s", std::vector<double>(one.values.size(), kNaN)};
        retries.packets = packets_of(context, name);
      }
      for (std::size_t t = 0; t < one.values.size(); ++t) {
        if (std::isnan(one.values[t])) continue;
        double& highest = retries.all.values[t];
        highest = std::isnan(highest) ? one.values[t] : std::max(highest, one.values[t]);
      }
      retries.channels.push_back(channel);
      retries.why.push_back(counter.why);
    }
  }
  std::vector<Retries> all;
  all.reserve(by_port.size());
  for (auto& [name, retries] : by_port) all.push_back(std::move(retries));
  return all;
}

double count_in(const RuleContext& context, std::span<const double> per_second, Interval at) {
  const double mean = mean_inside(per_second, at);
  return std::isnan(mean) ? 0 : mean * context.seconds(at.length());
}

/// Repeated requests per packet sent. A job that waits for the timeouts of lost packets hardly sends between them: its
/// retries come in bursts with pauses, but are as large a part of the packets as at full speed. Where a sample has few
/// packets, the next ones on both sides count, too.
std::vector<double> share_repeated(const RuleContext& context, const Retries& retries) {
  constexpr double kEnough = 1000;  // packets: ten of them are lost where a link loses 1 %
  constexpr double kReachSeconds = 5;
  const std::size_t samples = retries.packets.size();
  std::vector<double> sent(samples + 1, 0.0);
  std::vector<double> repeated(samples + 1, 0.0);
  std::vector<bool> known(samples);
  for (std::size_t t = 0; t < samples; ++t) {
    known[t] = !std::isnan(retries.packets[t]) && !std::isnan(retries.all.values[t]);
    sent[t + 1] = sent[t] + (known[t] ? context.seconds(1) * retries.packets[t] : 0);
    repeated[t + 1] = repeated[t] + (known[t] ? context.seconds(1) * retries.all.values[t] : 0);
  }
  const std::size_t reach = context.steps(kReachSeconds);
  std::vector<double> share(samples, kNaN);
  for (std::size_t t = 0; t < samples; ++t) {
    if (!known[t]) continue;
    Interval at{t, t + 1};
    for (std::size_t margin = 1; margin <= reach && sent[at.end] - sent[at.begin] < kEnough; ++margin) {
      at = widened({t, t + 1}, margin, samples);
    }
    const double packets = sent[at.end] - sent[at.begin];
    const double again = repeated[at.end] - repeated[at.begin];
    if (packets > 0 || again > 0) share[t] = again < packets ? again / packets : 1;
  }
  return share;
}

/// By share of the packets, so that pauses of the port do not divide an interval; by number where no packets are
/// counted.
std::vector<Excursion> search(const RuleContext& context, const Retries& retries) {
  const double min_rate = context.threshold("min_rate");
  const double min_score = context.threshold(kMinScore.name);
  if (retries.packets.empty()) {
    return excursions_of(context, retries.all.values, min_rate, min_score, Cause::external);
  }
  const double usual = mean_inside(retries.packets, {0, context.telemetry.samples});
  return excursions_of(context, share_repeated(context, retries),
                       std::max(context.threshold("min_share"), min_rate / usual), min_score, Cause::external);
}

/// The most frequent of them in the interval.
std::size_t leading(const RuleContext& context, const Retries& retries, Interval at) {
  std::size_t most = 0;
  double highest = -1;
  for (std::size_t i = 0; i < retries.channels.size(); ++i) {
    const double mean = mean_inside(context.telemetry.series(retries.channels[i]), at);
    if (mean > highest) {
      highest = mean;
      most = i;
    }
  }
  return most;
}

std::string_view words_of(Why why) {
  constexpr std::string_view kWords[] = {"packets were lost on the path and sent again",
                                         "packets were not acknowledged in time and sent again"};
  return kWords[static_cast<std::size_t>(why)];
}

/// Bytes of the port, or packets where its driver counts no bytes.
std::optional<MetricSeries> traffic_of(const RuleContext& context, const std::string& port) {
  for (const auto& [metric, unit] : {std::pair{"ib.xmit_bytes", "bytes/s"}, std::pair{"rdma.tx_bytes", "bytes/s"},
                                     std::pair{"rdma.sent_pkts", "packets/s"}}) {
    const auto channels = context.channels(metric, port);
    if (!channels.empty()) return channel_rate(context, channels.front(), 1, unit);
  }
  return std::nullopt;
}

void set_loss_of_traffic(const RuleContext& context, Finding& finding, const Retries& retries, Interval at,
                         std::span<const Interval> all) {
  constexpr double kNoticeable = 0.02;
  const auto traffic = traffic_of(context, retries.port.name);
  const auto sent = inside_outside(context, traffic, at, all);
  if (!sent) {
    set_loss(context, finding, std::nullopt,
             "not known: the port's traffic without repeated requests was not measured");
  } else if (sent->fall() > kNoticeable) {
    set_loss(context, finding, sent->fall() * context.seconds(at.length()),
             fmt::format("{} left the port instead of {}", quantity(sent->inside, traffic->unit),
                         quantity(sent->outside, traffic->unit)));
  } else {
    set_loss(context, finding, std::nullopt, "none seen: the port sent as much as usual");
  }
  if (sent) finding.evidence.push_back(evidence_of(context, *traffic, *sent, at));
}

/// When one node of a job has ended, the others' last packets are not acknowledged any more.
bool is_the_end(const RuleContext& context, Interval at) {
  return at.begin + context.steps(context.threshold("last_seconds")) >= context.telemetry.samples;
}

std::optional<Finding> describe(const RuleContext& context, const Retries& retries, const Excursion& excursion,
                                std::span<const Interval> all) {
  const double total = count_in(context, retries.all.values, excursion.at);
  if (total < context.threshold("min_retries") || is_the_end(context, excursion.at)) return std::nullopt;
  const double packets = count_in(context, retries.packets, excursion.at);
  if (total < context.threshold("min_share") * packets) return std::nullopt;
  const std::size_t lead = leading(context, retries, excursion.at);
  MetricSeries signal = channel_rate(context, retries.channels[lead], 1, "/s");
  Finding finding = finding_at(context, excursion.at, retries.port.values());
  finding.instances = {retries.port.name};
  finding.confidence = Confidence::likely;
  const auto change = inside_outside(context, signal, excursion.at, all);
  Evidence evidence = evidence_of(context, signal, excursion);
  evidence.observed = mean_inside(signal.values, excursion.at);
  evidence.expected.reset();
  if (change) evidence.expected = change->outside;
  evidence.detectors = seen_by(confirmed_by(context.detection, excursion.at));
  finding.evidence.push_back(std::move(evidence));
  set_loss_of_traffic(context, finding, retries, excursion.at, all);
  for (Evidence& each : finding.evidence) each.instance = retries.port.name;
  const auto all_counters = inside_outside(context, retries.all, excursion.at, all);
  finding.sentence =
      fmt::format("The RDMA port {} of node {} repeated at least {} RDMA requests in {}{}{}: {}.", retries.port.name,
                  context.telemetry.node, number(total), duration(context.seconds(excursion.at.length())),
                  all_counters ? fmt::format(" (usually {}/s)", number(all_counters->outside)) : "",
                  packets > total ? fmt::format(", one per {} packets sent", number(packets / total)) : "",
                  words_of(retries.why[lead]));
  finding.runner_up = {"", "several paths: they reorder packets, which is not counted here, but lose none"};
  return finding;
}

/// An event that lasts from the first second to the last has no baseline to compare with.
std::optional<Excursion> all_along(const RuleContext& context, const Retries& retries) {
  const Interval whole{0, context.telemetry.samples};
  const double mean = mean_inside(retries.all.values, whole);
  if (!(mean >= context.threshold("min_rate"))) return std::nullopt;
  const std::size_t half = context.telemetry.samples / 2;
  const bool lasts = mean_inside(retries.all.values, {0, half}) >= context.threshold("min_rate") / 2 &&
                     mean_inside(retries.all.values, {half, whole.end}) >= context.threshold("min_rate") / 2;
  if (!lasts) return std::nullopt;
  return Excursion{.at = whole, .inside = mean};
}

std::vector<Finding> check(const RuleContext& context) {
  const std::vector<Retries> ports = retries_of(context);
  if (ports.empty())
    throw Unavailable("not measured: rdma.packet_seq_err and others (no RDMA adapter that counts them)");
  std::vector<Finding> findings;
  for (const Retries& retries : ports) {
    auto found = search(context, retries);
    if (found.empty()) {
      if (const auto always = all_along(context, retries)) found.push_back(*always);
    }
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      if (auto finding = describe(context, retries, excursion, all)) findings.push_back(*std::move(finding));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "rdma.retries",
    .title = "RDMA requests had to be repeated",
    .looks_for = "Intervals in which an adapter counts lost packets or timeouts (rdma.packet_seq_err, "
                 "rdma.local_ack_timeout_err and others by driver), as a share of the packets it sent "
                 "(ib.xmit_packets, rdma.sent_pkts, rdma.tx_pkts), or per second where these are not counted.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 66,
    .look_alikes = "ib.link_errors,packets out of order where a fabric has several paths,receivers without a buffer,"
                   "the end of the job",
    .proof = Proof::guest,
    .thresholds = {{"min_rate", 1, "/s",
                    "least rate of repeated requests above the usual rate, at the port's mean rate of packets"},
                   {"min_share", 1e-6, "ratio", "least repeated requests per packet sent, if packets are counted"},
                   {"min_retries", 30, "requests", "least repeated requests in an interval"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   {"last_seconds", 30, "s",
                    "repeated requests that begin in the last seconds belong to the end of the job"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # if it is always the same node", "job", kIf}},
    .advice =
        {{"NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT only hide the loss: raise them to finish a job, not permanently.",
          "nccl"}},
    .admin_remedy =
        {"grep . /sys/class/infiniband/{device}/ports/{port}/hw_counters/*   # which counters, and whether they grow",
         "ibqueryerrors   # InfiniBand: links with errors on the way",
         "mlnx_qos -i {interface}   # RoCE: its traffic must be in a lossless class, also on every switch",
         {"dcb pfc show dev {interface}   # the same with iproute2", kOr}},
    .verify = {.command = "grep . /sys/class/infiniband/*/ports/*/hw_counters/*",
               .where = "on the node, before and after the next run",
               .expected = "the same counts of retries and time-outs"},
    .sources = {"https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband",
                "https://git.zx2c4.com/linux-dev/commit/?id=d7fab916374c8f5488ca792c57ea8b72e8631213",
                "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::rdma_retries
