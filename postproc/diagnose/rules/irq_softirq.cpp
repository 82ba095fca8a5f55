// The packets of several cpus pile up on one of them, and it cannot keep up. That one cpu takes most of them is no
// fault by itself, since few flows make few busy queues: only packets dropped or left behind, a full cpu, or a job that
// does less while the same packets come, make it one.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interrupt_causes.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/job_progress.h"
#include "postproc/diagnose/nccl_use.h"
#include "postproc/words/quantity.h"
#include "postproc/words/remedy_lines.h"

namespace reveal::rule::irq_softirq {
namespace {

/// Packets each cpu took per second, as means over seconds: a sample of a tenth is a burst or none.
struct Packets {
  std::vector<std::string> cpus;
  std::vector<std::vector<double>> rates;
};

Packets packets(const RuleContext& context) {
  Packets all;
  for (const std::size_t channel : context.channels("softnet.processed")) {
    all.cpus.push_back(context.telemetry.channels[channel].instance);
    all.rates.push_back(over_seconds(context, context.telemetry.series(channel)));
    for (double& rate : all.rates.back()) rate /= context.telemetry.step_seconds;
  }
  return all;
}

/// Share of the node's packets that its busiest cpu took; missing where there are few.
MetricSeries busiest_share(const RuleContext& context, const Packets& packets) {
  MetricSeries share{"softnet.processed", "ratio", std::vector<double>(context.telemetry.samples, std::nan(""))};
  for (std::size_t t = 0; t < share.values.size(); ++t) {
    double sum = 0;
    double most = 0;
    for (std::size_t i = 0; i < packets.rates.size(); ++i) {
      const double rate = packets.rates[i][t];
      sum += rate;
      if (is_one_cpu(packets.cpus[i])) most = std::max(most, rate);
    }
    if (sum >= context.threshold("min_packets")) share.values[t] = most / sum;
  }
  return share;
}

std::size_t busiest(const Packets& packets, Interval at) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < packets.rates.size(); ++i) {
    if (!is_one_cpu(packets.cpus[i])) continue;
    const bool first = !is_one_cpu(packets.cpus[best]);
    if (first || mean_inside(packets.rates[i], at) > mean_inside(packets.rates[best], at)) best = i;
  }
  return best;
}

/// The work that the cpu could not do, inside against outside; nothing when it kept up.
struct Cost {
  MetricSeries signal;
  InsideOutside change;
};

std::optional<Cost> cost_of(const RuleContext& context, const std::string& cpu, Interval at,
                            std::span<const Interval> all) {
  struct Sign {
    std::string_view metric;
    std::string_view unit;
    double scale;
    std::string_view threshold;
  };
  constexpr Sign kSigns[] = {{"softnet.dropped", "/s", 1, "min_dropped"},
                             {"softnet.time_squeeze", "/s", 1, "min_squeezed"},
                             {"cpu.softirq", "cpus", 1e-9, "min_softirq"}};
  for (const Sign& sign : kSigns) {
    const auto channels = context.channels(sign.metric, cpu);
    if (channels.empty()) continue;
    MetricSeries signal = channel_rate(context, channels[0], sign.scale, sign.unit);
    const auto change = inside_outside(context, signal, at, all);
    const double outside = change ? change->outside : kNaN;  // a pile-up from the first second has no outside
    const double inside = change ? change->inside : mean_inside(signal.values, at);
    if (inside >= context.threshold(sign.threshold) && !(inside < 3 * outside)) {
      return Cost{std::move(signal), {inside, outside, change ? change->score : 0}};
    }
  }
  return std::nullopt;
}

/// The cpu's time in soft interrupts.
std::optional<Cost> time_of(const RuleContext& context, const std::string& cpu, Interval at,
                            std::span<const Interval> all) {
  const auto channels = context.channels("cpu.softirq", cpu);
  if (channels.empty()) return std::nullopt;
  MetricSeries signal = channel_rate(context, channels[0], 1e-9, "cpus");
  const auto change = inside_outside(context, signal, at, all);
  return change ? std::optional(Cost{std::move(signal), *change}) : std::nullopt;
}

double packets_in(const Packets& packets, Interval at) {
  double sum = 0;
  for (const std::vector<double>& rates : packets.rates) sum += mean_inside(rates, at);
  return sum;
}

/// Segments that were lost elsewhere are a reason of their own to do less: this node dropped none of them.
bool loses_segments(const RuleContext& context, Interval at, std::span<const Interval> all) {
  constexpr double kMostLost = 10;  // /s
  for (const std::string_view metric : {"tcp.RetransSegs", "tcpext.TCPOFOQueue"}) {
    const auto change = inside_outside(context, rate(context, metric, 1, "/s"), at, all);
    if (change && change->excess() >= kMostLost) return true;
  }
  return false;
}

/// The work that the job did not do meanwhile, if as many packets came as in the rest of the run and the cpu spent more
/// time on them: with fewer or more packets the job did something else. The node as a whole may spend less time on
/// them, for their work is no longer shared.
std::optional<WorkPace> slowed_by(const RuleContext& context, const Packets& packets, const Cost& time, Interval at,
                                  std::span<const Interval> all) {
  constexpr double kSame = 0.3;
  constexpr double kLeastRise = 0.03;  // cpus
  double usual = 0;
  for (const std::vector<double>& rates : packets.rates) usual += mean_outside(rates, all);
  if (!(std::abs(packets_in(packets, at) / usual - 1) <= kSame)) return std::nullopt;
  if (!(time.change.excess() >= kLeastRise) || loses_segments(context, at, all)) return std::nullopt;
  return slower_work(context, at);
}

std::vector<Excursion> pile_ups(const RuleContext& context, const MetricSeries& share) {
  // Healthy packets are spread unevenly, and differently from minute to minute: a share that no other time reaches is
  // judged by its cost.
  constexpr double kLeastScore = 1;
  auto found = excursions_of(context, share.values, context.threshold("min_excess"), kLeastScore);
  std::erase_if(found, [&](const Excursion& at) {
    const bool usual = !at.beyond && at.score < context.threshold("min_score");
    return usual || at.recurring || at.inside < context.threshold("min_share");
  });
  const Interval whole{0, share.values.size()};
  const double mean = mean_inside(share.values, whole);
  const auto known = static_cast<std::size_t>(
      std::count_if(share.values.begin(), share.values.end(), [](double value) { return !std::isnan(value); }));
  if (found.empty() && mean >= context.threshold("min_share") && 2 * known >= share.values.size() &&
      known >= context.steps(context.threshold("min_seconds"))) {
    found.push_back({.at = whole, .inside = mean, .outside = kNaN});
  }
  return found;
}

/// Packet steering to that cpu alone is the cause where it is set, and has an exact remedy.
void name_the_cause(const RuleContext& context, std::string_view cpu, Finding& finding) {
  const std::vector<std::string> interfaces = steered_to(context, cpu);
  if (interfaces.empty()) return;
  const std::vector<int> online = parse_cpu_list(context.snapshot_value("cpu.online"));
  std::vector<std::string> lines;
  for (const std::string& interface : interfaces) {
    if (online.empty()) break;
    lines.push_back(
        fmt::format("for q in /sys/class/net/{}/queues/rx-*; do echo {} > $q/rps_cpus; done   # changes the node until "
                    "its next boot; now: {} alone",
                    interface, mask_of_cpus(online), cpu));
    const std::vector<int> senders = sending_cpus(context, interface);
    const bool alone = senders.size() == 1 && "cpu" + std::to_string(senders.front()) == cpu;
    if (alone) lines.push_back(line_for_senders(interface, online, senders));
  }
  finding.sentence +=
      fmt::format(" Packets of {} are steered only to this cpu (rps_cpus).", fmt::join(interfaces, ", "));
  finding.remedy.admin.insert(finding.remedy.admin.begin(), lines.begin(), lines.end());
  looks_first(finding.remedy.admin);
}

/// The share is a mean over seconds, so its ends are known to one: the first drops may lie before them.
Interval with_ends(const RuleContext& context, Interval at) {
  const std::size_t second = context.steps(1);
  return {at.begin - std::min(at.begin, second), std::min(context.telemetry.samples, at.end + second)};
}

/// How it could not keep up.
std::string in_words(const MetricSeries& signal, const InsideOutside& change) {
  const std::string inside = number(change.inside);
  const std::string usual = std::isnan(change.outside) ? "" : fmt::format(" (usually {})", number(change.outside));
  if (signal.metric == "softnet.dropped") return fmt::format("dropped {} a second{}", inside, usual);
  if (signal.metric == "softnet.time_squeeze") {
    return fmt::format("stopped {} times a second with packets left{}", inside, usual);
  }
  return fmt::format("had no time left: {} in soft interrupts{}", counted(change.inside, "cpu"), usual);
}

/// Settings of NCCL's sockets change nothing for a job that opened RDMA devices, and irqbalance need not be started
/// where it runs.
JobValues values_of(const RuleContext& context, const std::string& cpu) {
  JobValues values;
  const std::string opened = context.snapshot_value("job.rdma_opened");
  if (!opened.empty() && opened != "none") values["rdma"] = "yes";
  if (context.snapshot_value("irq.irqbalance") == "running") values["irqbalance"] = "yes";
  if (context.values().contains("nccl") && opened_gpus(context)) values["gpus"] = "yes";
  if (!steered_to(context, cpu).empty()) values["steered"] = "yes";
  return values;
}

std::vector<Finding> check(const RuleContext& context) {
  const Packets all_packets = packets(context);
  if (all_packets.rates.empty()) throw Unavailable("not measured: softnet.processed (/proc/net/softnet_stat)");
  if (all_packets.rates.size() < 2) return {};  // there is no other cpu to share with
  const MetricSeries share = busiest_share(context, all_packets);
  const auto received = rate(context, "tcp.InSegs", 1, "/s");
  const auto found = pile_ups(context, share);
  const std::vector<Interval> all = places(found);
  std::vector<Interval> wide = all;
  for (Interval& at : wide) at = with_ends(context, at);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    const std::string& cpu = all_packets.cpus[busiest(all_packets, excursion.at)];
    const auto cost = cost_of(context, cpu, with_ends(context, excursion.at), wide);
    const auto time = cost ? cost : time_of(context, cpu, excursion.at, all);
    const auto lost = cost || !time ? std::nullopt : slowed_by(context, all_packets, *time, excursion.at, all);
    if (!cost && !lost) continue;
    Finding finding = finding_at(context, excursion.at, values_of(context, cpu));
    const double length = context.seconds(excursion.at.length());
    finding.instances = {cpu};
    const auto segments = inside_outside(context, received, excursion.at, all);
    if (cost) {
      finding.confidence = cost->signal.metric == "softnet.dropped" ? Confidence::certain : Confidence::likely;
      set_loss_of_segments(context, finding, segments, excursion.at);
    } else {
      finding.confidence = Confidence::possible;
      set_loss(context, finding, lost->lost() * length, lost->words(context.watched()));
    }
    Evidence evidence = evidence_of(context, share, excursion);
    evidence.instance = cpu;
    evidence.feature = "share of the node's packets";
    evidence.detectors = seen_by(std::nullopt);
    finding.evidence.push_back(std::move(evidence));
    finding.evidence.push_back(evidence_of(context, time->signal, time->change, excursion.at));
    finding.evidence.back().instance = cpu;
    if (std::isnan(time->change.outside)) finding.evidence.back().expected.reset();
    if (segments) finding.evidence.push_back(evidence_of(context, *received, *segments, excursion.at));
    const std::string usual = std::isnan(excursion.outside)
                                  ? ""
                                  : fmt::format(" (usually {:.0f} % on the busiest cpu)", 100 * excursion.outside);
    finding.sentence =
        fmt::format("{} of {} handled {:.0f} % of the network packets for {}{} and {}.", cpu, context.telemetry.node,
                    100 * excursion.inside, duration(length), usual,
                    cost ? in_words(cost->signal, cost->change)
                         : fmt::format("spent {} on them (usually {})", counted(time->change.inside, "cpu"),
                                       number(time->change.outside)));
    finding.runner_up = cost ? RunnerUp{"net.tcp_retrans_fault",
                                        fmt::format("a loss in the network: {} itself counted these packets", cpu)}
                             : RunnerUp{"", "another phase of the job: as many packets came as in the rest of the run"};
    name_the_cause(context, cpu, finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "irq.softirq_saturation",
    .title = "One cpu handles nearly all network packets",
    .looks_for = "Intervals in which one cpu received nearly all packets (softnet.processed) and dropped or postponed "
                 "some (softnet.dropped, softnet.time_squeeze), had no time left (cpu.softirq); or in which it spent "
                 "more time on as many packets, and the job did less.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::network,
    .order = 60,
    .look_alikes = "net.tcp_retrans_fault,few flows",
    .proof = Proof::real,
    .thresholds = {{"min_packets", 1000, "/s", "least rate of packets of the node for a significant distribution"},
                   {"min_share", 0.9, "ratio", "least part of the packets on one cpu"},
                   {"min_excess", 0.2, "ratio", "least rise of that part"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"min_dropped", 1, "/s",
                    "rate of packets dropped because of a full backlog from which it is a cost"},
                   {"min_squeezed", 100, "/s",
                    "rate of receive work stopped with packets left from which it is a cost"},
                   {"min_softirq", 0.8, "cpus", "time of that cpu in soft interrupts from which it is a cost"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"cat /proc/net/softnet_stat   # on {node}, twice in the next run: the first column (packets) "
                    "should grow in many lines, the second (drops) in none",
                    {"export NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4   # more flows reach more queues",
                     "gpus,!rdma,!steered"}},
    .admin_remedy =
        {"grep . /sys/class/net/*/queues/rx-*/rps_cpus   # bit masks of the cpus for each queue's packets (0: the cpu "
         "of its interrupt); a single bit is bad: write several",
         {"systemctl enable --now irqbalance   # changes {node}, also after a boot, if irqbalance does not run: starts "
          "it, and it spreads interrupts over the cpus",
          "!irqbalance", kIf},
         "Give the interface more queues (ethtool -l, ethtool -L).",
         "sysctl net.core.netdev_max_backlog=10000   # changes the node until its next boot: absorbs bursts, but does "
         "not spread the load"},
    .verify = {.expected = "softnet.dropped is 0, and the busiest cpu takes its usual share of softnet.processed"},
    .sources = {"https://docs.kernel.org/networking/scaling.html",
                "https://docs.kernel.org/admin-guide/sysctl/net.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::irq_softirq
