// Segments that a node sent again although no fault lost them: too early, because acknowledgements came late or out of
// order, or because packets overtook each other; or in bursts of the job's own traffic that fill a queue of the network
// for a moment. How the sender recovered distinguishes them from loss by a fault, where each lost segment is recovered
// by itself.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/loss_recoveries.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/sent_again.h"
#include "postproc/numerics/present_values.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_tcp_intrinsic {
namespace {

/// Per step: whether a rule before this one has explained the loss of segments.
std::vector<bool> explained_steps(const RuleContext& context) {
  constexpr std::array<std::string_view, 4> kReasons = {"net.tcp_retrans_fault", "net.congestion",
                                                        "irq.softirq_saturation", "net.nic_rx_drop"};
  std::vector<bool> explained(context.telemetry.samples, false);
  for (const Finding& finding : context.found) {
    if (std::find(kReasons.begin(), kReasons.end(), finding.id) == kReasons.end()) continue;
    for (const TimeSpan& span : finding.intervals) {
      for (std::size_t t = 0; t < explained.size(); ++t) {
        if (span.overlaps(context.span(t, t + 1))) explained[t] = true;
      }
    }
  }
  return explained;
}

/// The unexplained ones per step; NaN where not measured, or explained.
std::vector<double> open_steps(std::vector<double> series, const std::vector<bool>& explained) {
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (explained[t]) series[t] = kNaN;
  }
  return series;
}

/// Means over whole seconds: retransmissions follow the sent segments by a round trip and more.
std::vector<double> by_second(const RuleContext& context, std::span<const double> series) {
  const std::size_t second = context.steps(1);
  std::vector<double> means;
  for (std::size_t t = 0; t + second <= series.size(); t += second) {
    means.push_back(mean_inside(series, {t, t + second}));
  }
  return means;
}

/// Correlation of retransmitted with sent segments; NaN where one of them does not vary.
double follows(const RuleContext& context, std::span<const double> again, std::span<const double> sent) {
  const auto x = by_second(context, again);
  const auto y = by_second(context, sent);
  const double mean_x = mean_inside(x, {0, x.size()});
  const double mean_y = mean_inside(y, {0, y.size()});
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i])) continue;
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : kNaN;
}

struct Retransmissions {
  std::string_view needless_metric;
  double sent = 0;
  RetransmitCount again;
  double recovered = 0;  // recoveries of the sender
  double stood = 0;      // those that it did not undo: each is from a loss
  double with_bursts = kNaN;

  [[nodiscard]] double needless_share() const { return again.duplicates / again.segments; }
  [[nodiscard]] double recovery_share() const { return recovered / again.segments; }
};

Retransmissions count(const RuleContext& context) {
  const auto explained = explained_steps(context);
  const auto sent = open_steps(context.total("tcp.OutSegs"), explained);
  const auto again = open_steps(context.total("tcp.RetransSegs"), explained);
  const auto recoveries = context.total(kRecoveries);
  const std::string_view needless = metric_of_duplicates(context);
  const std::vector<bool> overtaken = overtaken_steps(context.telemetry);
  double again_while_overtaken = 0;
  for (std::size_t t = 0; t < again.size(); ++t) {
    if (overtaken[t] && !std::isnan(again[t])) again_while_overtaken += again[t];
  }
  return {.needless_metric = needless,
          .sent = present_values(sent).sum,
          .again = {.segments = present_values(again).sum,
                    .duplicates = present_values(open_steps(context.total(needless), explained)).sum,
                    .overtaken = again_while_overtaken},
          .recovered = present_values(open_steps(recoveries, explained)).sum,
          .stood = present_values(open_steps(recoveries_that_stood(context).value_or(recoveries), explained)).sum,
          .with_bursts = follows(context, again, sent)};
}

enum class Reason : std::uint8_t { needless, bursts, unknown };

Reason reason_of(const RuleContext& context, const Retransmissions& seen) {
  const bool one_by_one = seen.recovery_share() >= context.threshold("max_recovery_share");
  if (one_by_one) return Reason::unknown;  // lost by a fault: reported on the node they were sent to
  if (seen.needless_share() >= context.threshold("min_needless_share")) return Reason::needless;
  if (seen.with_bursts >= context.threshold("min_correlation")) return Reason::bursts;
  return Reason::unknown;
}

std::string sentence_of(const RuleContext& context, const Retransmissions& seen, Reason reason) {
  constexpr double kNearlyAll = 90;  // percent; reports of some are lost themselves
  const std::string begin = fmt::format("{} sent {} TCP segments again, {} % of those it sent", context.telemetry.node,
                                        number(seen.again.segments), number(100 * seen.again.segments / seen.sent));
  if (reason == Reason::needless) {
    const double percent = std::min(100.0, 100 * seen.needless_share());
    const double rest = std::round(seen.again.missing());
    // Duplicates of the network's own making are reported, too: with them, the difference is no bound.
    const bool is_bound = percent >= kNearlyAll && rest >= std::round(seen.stood);
    const std::string lost = !is_bound  ? ""
                             : rest < 1 ? "; nothing was lost"
                                        : fmt::format("; {} or fewer were lost", number(rest));
    return fmt::format("{}; {}{:.0f} % of them had arrived already: {}{}.", begin,
                       percent >= kNearlyAll ? "" : "at least ", percent,
                       seen.again.mostly_overtaken() ? "packets overtook each other on their way"
                                                     : "acknowledgements came late or out of order",
                       lost);
  }
  return fmt::format("{}; their number rose with its own traffic (correlation {}); there is no sign of a fault.", begin,
                     number(seen.with_bursts));
}

Evidence counted_evidence(const RuleContext& context, std::string metric, double count, const TimeSpan& span) {
  return {.metric = std::move(metric),
          .instance = "",
          .node = context.telemetry.node,
          .feature = "total",
          .observed = count,
          .expected = std::nullopt,
          .unit = "count",
          .span = span,
          .detectors = {Method::kernel_counter},
          .score = std::nullopt};
}

std::string how_much(Reason reason, bool overtaken) {
  if (overtaken) return "not known: after each recovery, the sender sends less for a while";
  return reason == Reason::needless ? "none seen: retransmissions of this kind are caused by the traffic itself"
                                    : "none seen: their number rose with the traffic";
}

std::vector<Finding> check(const RuleContext& context) {
  const Retransmissions seen = count(context);
  if (seen.again.segments < context.threshold("min_segments")) return {};
  if (seen.again.segments < context.threshold("min_share") * seen.sent) return {};
  const Reason reason = reason_of(context, seen);
  if (reason == Reason::unknown) return {};
  const bool overtaken = reason == Reason::needless && seen.again.mostly_overtaken();
  Finding finding =
      finding_at(context, {0, context.telemetry.samples}, overtaken ? JobValues{{"overtaken", "yes"}} : JobValues());
  finding.severity = Severity::info;
  // Loss of a fixed share follows the traffic, too.
  finding.confidence = reason == Reason::needless ? Confidence::likely : Confidence::possible;
  finding.impact.how = how_much(reason, overtaken);
  const TimeSpan& span = finding.intervals.front();
  finding.evidence = {counted_evidence(context, "tcp.RetransSegs", seen.again.segments, span),
                      counted_evidence(context, "tcp.OutSegs", seen.sent, span),
                      counted_evidence(context, std::string(seen.needless_metric), seen.again.duplicates, span),
                      counted_evidence(context, "tcpext.TCPSackRecovery", seen.recovered, span)};
  finding.sentence = sentence_of(context, seen, reason);
  const auto explained = explained_steps(context);
  // Retransmissions to a peer cannot be separated, second by second, from those that another rule has explained.
  if (std::find(explained.begin(), explained.end(), true) == explained.end()) {
    const Interval whole{0, context.telemetry.samples};
    locate_loss(context, finding, whole, {}, LossDirection::sent,
                seen.again.segments / context.seconds(whole.length()));
  }
  finding.runner_up = {"net.tcp_retrans_fault",
                       fmt::format("random loss: there {} recoveries and more belong to each retransmission, here {}",
                                   number(context.threshold("max_recovery_share")), number(seen.recovery_share()))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "net.tcp_retrans_intrinsic",
    .title = "TCP segments were sent again, too early or in bursts",
    .looks_for = "Segments sent again (tcp.RetransSegs) that had arrived already (tcpext.TCPDSACKRecvSegs, or "
                 "tcpext.TCPDSACKRecv) or that follow "
                 "bursts of tcp.OutSegs, without a recovery of their own for each (tcpext.TCPSackRecovery). Many "
                 "reports of duplicates (tcpext.TCPDSACKRecv) for each recovery, with another order "
                 "(tcpext.TCPSACKReorder): packets overtook each other.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 75,
    .look_alikes = "net.tcp_retrans_fault,net.congestion,irq.softirq_saturation,net.nic_rx_drop",
    .proof = Proof::test_double,
    .thresholds = {{"min_segments", 100, "segments", "least number of retransmitted segments that is reported"},
                   {"min_share", 0.0001, "ratio", "least part of the segments sent"},
                   {"min_needless_share", 0.25, "ratio",
                    "share of retransmitted segments that had arrived already, from which they were sent too early"},
                   {"max_recovery_share", 0.55, "ratio",
                    "recoveries per retransmitted segment from which the loss is random"},
                   {"min_correlation", 0.6, "ratio",
                    "correlation with the segments sent per second, from which bursts are the cause"}},
    .user_remedy =
        {"nstat -az | grep -E 'TcpRetransSegs|TCPDSACKRecv|TCPSackRecovery'   # on {node}, while a job runs"},
    .advice = {{"No repair is needed. Fewer simultaneous connections, or RDMA instead of sockets, reduce the "
                "retransmissions.",
                "!overtaken"},
               {"Ask the site whether the network sends the packets of one connection over several paths.",
                "overtaken"}},
    .admin_remedy = {{"grep . /sys/class/net/*/bonding/mode   # on {node}: balance-rr sends the packets of one "
                      "connection over several links",
                      "overtaken"},
                     {"tc -s qdisc show   # on {node}: whether packets are divided among queues of different delay",
                      "overtaken"},
                     {"Let the switches choose a path for each flow, not for each packet.", "overtaken"}},
    .verify = {.expected = "retransmissions are a small part of the segments sent"},
    .sources = {"https://www.kernel.org/doc/html/latest/networking/snmp_counter.html",
                "https://www.rfc-editor.org/rfc/rfc3708"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_tcp_intrinsic
