// TCP segments were lost on their way. The receive queue of the affected node fills out of order; the retransmissions
// are counted by its peers, which are not at fault. Where losses are so rare that segments which only overtook each
// other hide them, the peers still know them: they undo the recoveries that were not needed.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/count_excursion.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/job_timings.h"
#include "postproc/diagnose/loss_recoveries.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/round_trips.h"
#include "postproc/diagnose/sent_again.h"
#include "postproc/numerics/present_values.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::net_tcp_fault {
namespace {

constexpr const char* kQueued = "tcpext.TCPOFOQueue";
constexpr const char* kTwice = "tcpext.TCPDSACKOldSent";
constexpr std::size_t kHabit = 4;     // intervals alike: normal for these connections
constexpr double kMoreTraffic = 0.5;  // above the usual traffic: the job does something else then

/// Segments that came twice answer a retransmission without a loss: reordering and late acknowledgements look so. Per
/// segment out of order, real losses had at most .1 of them, a busy link that changes the order .15 to .35. That is
/// close: where the sender is a node of the job, too, its count decides when the nodes' summaries are merged
/// (sent_again.h).
bool is_reordering(const RuleContext& context, double twice, double out_of_order) {
  return twice >= context.threshold("max_duplicate_share") * out_of_order;
}

/// Packets that are lost because a queue on their way is full have waited in it before; those that a bad link loses
/// have not. Otherwise the runner-up is `other`.
void compare_round_trips(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> all,
                         RunnerUp other) {
  constexpr double kLonger = 1.5;
  finding.runner_up = std::move(other);
  const auto trips = round_trips(context, at, all);
  if (!trips || !(trips->ratio() >= kLonger)) return;
  finding.evidence.push_back(evidence_of(context, *trips, at));
  finding.runner_up = {"net.congestion", fmt::format("not ruled out: round trips took {:.1f} times as long, as through "
                                                     "a full queue",
                                                     trips->ratio())};
}

/// Losses of ssh, of NFS or of monitoring are not those of the job. Nothing where its connections were not measured.
std::optional<double> elsewhere(const RuleContext& context, Interval at, std::span<const Interval> unusual,
                                double excess, LossDirection direction = LossDirection::received) {
  const auto share = share_of_job(context, at, unusual, direction, excess);
  return share && *share < context.threshold("min_job_share") ? share : std::nullopt;
}

void blame_others(Finding& finding, double share) {
  finding.severity = Severity::info;
  finding.impact = {.seconds = std::nullopt,
                    .percent = std::nullopt,
                    .how = "not known: few of the losses were on the job's connections"};
  finding.sentence += fmt::format(
      " At most {:.0f} % of them were on the job's connections; the others may be those of ssh, NFS or connections "
      "that "
      "had ended.",
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
  add_job_timing(context, finding, excursion.at, all);
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
  compare_round_trips(context, finding, excursion.at, all,
                      context.channels(kTwice).empty()
                          ? RunnerUp{"", "reordering cannot be ruled out: tcpext.TCPDSACKOldSent was not measured"}
                          : RunnerUp{"net.tcp_retrans_intrinsic",
                                     "reordering: reordered segments are sent twice, and few arrived twice"});
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

struct SenderSeries {
  MetricSeries recoveries;
  MetricSeries sent;
};

/// `lost`: the recoveries that stood, in one of the intervals `all`.
std::optional<Finding> describe_sender(const RuleContext& context, const SenderSeries& series,
                                       const CountExcursion& lost, std::span<const Interval> all) {
  const Interval at = lost.at;
  const double length = context.seconds(at.length());
  const auto recoveries = inside_outside(context, series.recoveries, at, all);
  const auto segments = inside_outside(context, series.sent, at, all);
  if (!recoveries || !segments) return std::nullopt;
  const double excess = lost.count - lost.usual * lost.exposure;
  const auto others = elsewhere(context, at, all, excess / length, LossDirection::lost);
  Finding finding = finding_at(context, at, others ? JobValues{{"elsewhere", "yes"}} : JobValues());
  set_loss_of_segments(context, finding, segments, at, Segments::sent);
  finding.evidence = {evidence_of(context, series.recoveries, *recoveries, at)};
  finding.evidence.front().detectors = seen_by(confirmed_by(context.detection, at));
  for (const std::string_view metric : kUndoneRecoveries) {
    const auto undone = rate(context, metric, 1, "/s");
    if (undone && mean_inside(undone->values, at) > 0) add_contrast(context, finding, undone, at, all);
  }
  finding.evidence.push_back(evidence_of(context, series.sent, *segments, at));
  add_job_timing(context, finding, at, all);
  finding.sentence = fmt::format(
      "Packets from {} were probably lost on the way for {}: it recovered {} times from a loss of TCP segments, {} % "
      "of "
      "those it sent (usually {} %).",
      context.telemetry.node, duration(length), number(std::round(lost.count)), number(100 * lost.share()),
      number(100 * lost.usual));
  const auto in_it = std::span(series.recoveries.values).subspan(at.begin, at.length());
  const double undone = present_values(in_it).sum * context.telemetry.step_seconds - lost.count;
  finding.confidence = Confidence::likely;
  RunnerUp other{"net.tcp_retrans_intrinsic",
                 fmt::format("segments sent again too early: the sender undid {} recoveries, and not these",
                             number(std::max(0.0, std::round(undone))))};
  if (segments->excess() > kMoreTraffic * segments->outside) {
    finding.confidence = Confidence::possible;
    other.why_not = fmt::format("not ruled out: bursts of its own traffic; {} segments/s were sent instead of {}",
                                number(segments->inside), number(segments->outside));
  }
  compare_round_trips(context, finding, at, all, std::move(other));
  if (others) blame_others(finding, *others);
  return finding;
}

/// The segments that the node sent again in an interval, by its own counters. Nothing where they were not measured.
std::optional<RetransmitCount> sent_again_in(const RuleContext& context, Interval at) {
  const auto again = context.total_if_measured("tcp.RetransSegs");
  const auto arrived = context.total_if_measured(metric_of_duplicates(context));
  if (!again || !arrived) return std::nullopt;
  const std::vector<bool> overtaken = overtaken_steps(context.telemetry);
  RetransmitCount sum;
  for (std::size_t t = at.begin; t < at.end; ++t) {
    RetransmitCount count{.segments = (*again)[t], .duplicates = (*arrived)[t]};
    if (std::isnan(count.segments) || std::isnan(count.duplicates)) continue;
    if (overtaken[t]) {
      count.overtaken = count.segments;
      count.overtaken_duplicates = count.duplicates;
    }
    sum += count;
  }
  return sum;
}

/// Where packets overtook each other, many recoveries are not undone, either: the kernel waits for a report of each
/// segment.
bool only_overtook(const RuleContext& context, const CountExcursion& each) {
  const auto again = sent_again_in(context, each.at);
  return again && again->mostly_overtaken() &&
         !were_lost(*again, each.exposure,
                    {.min_missing_share = context.threshold("min_missing_share"),
                     .min_missing = context.threshold("min_missing")});
}

/// Losses as their sender counted them. Those that the receiver counts, too, are told once when the nodes' summaries
/// are merged.
std::vector<Finding> losses_of_sender(const RuleContext& context) {
  const auto recoveries = context.total_if_measured(kRecoveries);
  const auto stood = recoveries_that_stood(context);
  const auto sent = context.total_if_measured("tcp.OutSegs");
  if (!recoveries || !stood || !sent) return {};
  auto found = find_count_excursions(*stood, *sent, context.threshold("max_chance"));
  if (found.size() >= kHabit) return {};
  std::vector<Interval> all;
  all.reserve(found.size());
  for (const CountExcursion& each : found) all.push_back(each.at);
  const double usual_of_step = std::max(0.0, mean_outside(*stood, all));
  const double min_ratio = context.threshold("min_ratio");
  const auto is_loss = [&](const CountExcursion& each) {
    const auto recovered = present_values(std::span(*recoveries).subspan(each.at.begin, each.at.length())).sum;
    // As many as usual in less traffic are those of other connections than the job's.
    const double usual = usual_of_step * static_cast<double>(each.at.length());
    return context.seconds(each.at.length()) >= context.threshold("min_seconds") && each.count >= kLeastLost &&
           each.share() >= context.threshold("min_recovered_share") &&
           each.share() - each.usual >= min_ratio * each.usual && each.count - usual >= min_ratio * usual &&
           each.count >= context.threshold("min_stood_share") * recovered && !only_overtook(context, each);
  };
  std::erase_if(found, [&](const CountExcursion& each) { return !is_loss(each); });
  const SenderSeries series{needed(rate(context, kRecoveries, 1, "/s"), kRecoveries),
                            needed(rate(context, "tcp.OutSegs", 1, "segments/s"), "tcp.OutSegs")};
  std::vector<Finding> findings;
  for (const CountExcursion& each : found) {
    if (auto finding = describe_sender(context, series, each, all)) findings.push_back(*std::move(finding));
  }
  return findings;
}

std::vector<Finding> losses_of_receiver(const RuleContext& context) {
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

std::vector<Finding> check(const RuleContext& context) {
  std::vector<Finding> findings = losses_of_receiver(context);
  for (Finding& finding : losses_of_sender(context)) findings.push_back(std::move(finding));
  return findings;
}

const RegisteredRule kRule{{
    .id = "net.tcp_retrans_fault",
    .former_id = "net.tcp_loss",
    .title = "Packets to or from a node of the job were probably lost",
    .looks_for =
        "Intervals in which segments arrived out of order at a node (tcpext.TCPOFOQueue against tcp.InSegs): "
        "earlier segments were lost on the path to it. tcp.peer.out_of_order shows the peer. If the sender is a "
        "node of the job, its counters decide: segments that it sent again (tcp.peer.retransmits) and that had "
        "not arrived already (tcp.peer.duplicates) were lost. Rare losses among segments that only overtook each "
        "other show at the sender: intervals with more recoveries, per second and per segment sent "
        "(tcpext.TCPSackRecovery against tcp.OutSegs), that it did not undo (tcpext.TCPFullUndo, "
        "tcpext.TCPPartialUndo, tcpext.TCPDSACKUndo) than come together by chance. Many reports of duplicates for each "
        "recovery (tcpext.TCPDSACKRecv) with another order (tcpext.TCPSACKReorder): packets overtook each other, and "
        "only the segments sent again that such reports cannot leave out were lost.",
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
         {"max_chance", 0.0001, "ratio",
          "probability that recoveries of a sender come together by chance, above which they are no loss"},
         {"min_stood_share", 0.5, "ratio", "least part of a sender's recoveries that it did not undo"},
         {"min_recovered_share", 0.0002, "ratio",
          "least recoveries of a sender that it did not undo, per segment sent"},
         {"min_job_share", 0.2, "ratio",
          "share of the losses on the job's connections, if measured; below it, the finding is a remark"},
         kMinLostSeconds,
         kMinLostPercent},
    .user_remedy = {"nstat -az | grep -E 'TcpRetransSegs|TCPOFOQueue|TCPSackRecovery'   # on {node}, while a job runs",
                    {"#SBATCH --exclude={nodes}   # until it is repaired", "job,!elsewhere"}},
    .admin_remedy =
        {"grep . /sys/class/net/*/statistics/*err* /sys/class/net/*/statistics/*drop*   # on {node}",
         "Check the error counters of the switch port of {node}.",
         "cat /proc/net/softnet_stat   # on {node}: the second column, drops of this kernel, should not grow"},
    .verify = {.expected = "tcpext.TCPOFOQueue and tcpext.TCPSackRecovery of the node are at the level of its peers"},
    .sources = {"https://www.kernel.org/doc/html/latest/networking/snmp_counter.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::net_tcp_fault
