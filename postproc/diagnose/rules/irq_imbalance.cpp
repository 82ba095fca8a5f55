// Several busy interrupt vectors are served by one cpu during the whole job, and that cpu pays for it. A skew by itself
// is no fault: few flows make few busy vectors, and a driver may own the affinity of its vectors.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interrupt_causes.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::irq_imbalance {
namespace {

/// Vectors that one cpu serves, of all that are busy.
struct Pile {
  std::string cpu;
  std::vector<Vector> vectors;
  double share = 0;  // share of all device interrupts
};

Pile largest_pile(const std::vector<Vector>& vectors, double min_cpu_share) {
  double all = 0;
  for (const Vector& vector : vectors) all += vector.rate;
  Pile largest;
  for (const Vector& seed : vectors) {
    Pile pile{seed.cpu, {}, 0};
    for (const Vector& vector : vectors) {
      if (vector.cpu != seed.cpu || vector.cpu_share < min_cpu_share || vector.managed) continue;
      pile.vectors.push_back(vector);
      pile.share += vector.rate / all;
    }
    if (pile.share > largest.share) largest = std::move(pile);
  }
  return largest;
}

/// Mean time in interrupts, in cpus, of one cpu ("cpu0"); NaN if not measured.
double interrupt_time(const RuleContext& context, std::string_view cpu) {
  double sum = std::nan("");
  for (const std::string_view metric : {"cpu.softirq", "cpu.irq"}) {
    for (const std::size_t channel : context.channels(metric, cpu)) {
      const double mean = mean_inside(context.telemetry.series(channel), {0, context.telemetry.samples});
      if (!std::isnan(mean)) sum = (std::isnan(sum) ? 0 : sum) + mean * 1e-9 / context.telemetry.step_seconds;
    }
  }
  return sum;
}

double others_interrupt_time(const RuleContext& context, std::string_view cpu) {
  double sum = 0;
  int count = 0;
  for (const std::size_t channel : context.channels("cpu.softirq")) {
    const std::string& other = context.telemetry.channels[channel].instance;
    const double time = other == cpu ? std::nan("") : interrupt_time(context, other);
    if (std::isnan(time)) continue;
    sum += time;
    ++count;
  }
  return count == 0 ? std::nan("") : sum / count;
}

bool job_may_run_on(const RuleContext& context, std::string_view cpu) {
  const auto allowed = parse_cpu_list(context.snapshot_value("job.cpus_allowed"));
  return std::any_of(allowed.begin(), allowed.end(), [&](int number) { return "cpu" + std::to_string(number) == cpu; });
}

/// Where the vector may go: the cpus beside its device, if the node's configuration has them. Packets that its
/// interface sends only from the crowded cpu are moved, too.
std::vector<std::string> lines_to_spread(const RuleContext& context, const Vector& vector) {
  const std::string key = "irq." + vector.number;
  const std::string numa_node = context.snapshot_value(key + ".numa_node");
  const std::string near = cpus_of_numa_node(context, numa_node);
  const std::string cpus = near.empty() ? context.snapshot_value("cpu.online") : near;
  if (cpus.empty()) return {};
  std::vector<std::string> lines = {
      fmt::format("echo {} > /proc/irq/{}/smp_affinity_list   # by hand, without irqbalance: {}{}", cpus, vector.number,
                  vector.name.empty() ? "the busiest" : vector.name,
                  near.empty() ? ": or one cpu of its NUMA node for each"
                               : fmt::format(", on NUMA node {}: or one of these cpus for each", numa_node))};
  for (const std::string& interface : interfaces_of(context.snapshot_value(key + ".device"))) {
    const std::vector<int> senders = sending_cpus(context, interface);
    const bool alone = senders.size() == 1 && "cpu" + std::to_string(senders.front()) == vector.cpu;
    if (alone) lines.push_back(line_for_senders(interface, parse_cpu_list(cpus), senders));
  }
  return lines;
}

Remedy remedy_of(const RuleContext& context, const Pile& pile, Remedy remedy) {
  const bool balanced = context.snapshot_value("irq.irqbalance") == "running";
  std::vector<std::string> admin;
  if (!balanced) {
    admin.emplace_back("systemctl enable --now irqbalance              # it is not running on this node");
  } else {
    admin.emplace_back(
        "systemctl disable --now irqbalance             # it runs but did not spread them; set them by hand");
  }
  for (std::string& line : lines_to_spread(context, pile.vectors.front())) admin.push_back(std::move(line));
  admin.insert(admin.end(), remedy.admin.begin(), remedy.admin.end());
  remedy.admin = std::move(admin);
  return remedy;
}

std::vector<Finding> check(const RuleContext& context) {
  const std::size_t cpus = context.channels("cpu.softirq").size();
  if (cpus == 0) throw Unavailable("not measured: cpu.softirq");
  if (cpus == 1) return {};  // there is no other cpu to share with
  const std::vector<Vector> vectors = busy_vectors(context, context.threshold("min_rate"));
  if (vectors.size() < 2) return {};
  const Pile pile = largest_pile(vectors, context.threshold("min_cpu_share"));
  if (pile.vectors.size() < 2 || pile.share < context.threshold("min_share")) return {};
  const double busy = interrupt_time(context, pile.cpu);
  const double others = others_interrupt_time(context, pile.cpu);
  if (std::isnan(busy) || std::isnan(others)) throw Unavailable("not measured: cpu.softirq");
  double dropped = 0;
  for (const std::size_t channel : context.channels("softnet.dropped", pile.cpu)) {
    const double mean = mean_inside(context.telemetry.series(channel), {0, context.telemetry.samples});
    dropped += std::isnan(mean) ? 0 : mean / context.telemetry.step_seconds;
  }
  const bool full = busy >= context.threshold("min_busy") && busy >= 3 * others;
  if (!full && dropped < context.threshold("min_dropped")) return {};

  Finding finding = context.finding();
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {pile.cpu};
  finding.confidence = Confidence::likely;
  const bool felt = job_may_run_on(context, pile.cpu);
  set_loss(context, finding, felt ? std::optional((busy - others) * job_seconds(context)) : std::nullopt,
           felt ? "time that a process of the job on that cpu lost to interrupts, beyond that on other cpus"
           : context.without_job() ? "not known: there was no job"
                                   : "not known: the job may not use that cpu, but its packets wait there");
  finding.impact.at_most = finding.impact.seconds.has_value();
  const auto add = [&](std::string metric, std::string feature, double observed, std::optional<double> expected,
                       std::string unit) {
    Evidence evidence;
    evidence.metric = std::move(metric);
    evidence.instance = pile.cpu;
    evidence.node = context.telemetry.node;
    evidence.feature = std::move(feature);
    evidence.observed = observed;
    evidence.expected = expected;
    evidence.unit = std::move(unit);
    evidence.span = finding.intervals.front();
    finding.evidence.push_back(std::move(evidence));
  };
  add("irq." + pile.vectors.front().number, "share of the device interrupts", pile.share, std::nullopt, "ratio");
  add("cpu.softirq", "mean time in interrupts; expected: that of the other cpus", busy, others, "cpus");
  if (dropped > 0) add("softnet.dropped", "mean", dropped, 0, "/s");

  std::string names;
  for (const Vector& vector : pile.vectors) names += (names.empty() ? "" : ", ") + vector.number;
  finding.sentence = fmt::format(
      "{} of {} serves {} busy interrupt vectors ({}), {:.0f} % of the device interrupts, and spends {:.0f} % of its "
      "time on them; the other cpus spend {:.1f} %.",
      pile.cpu, context.telemetry.node, pile.vectors.size(), names, 100 * pile.share, 100 * busy, 100 * others);
  finding.runner_up = {"", "vectors that the kernel manages cannot be moved: none of these is managed"};
  finding.remedy = remedy_of(context, pile, std::move(finding.remedy));
  return {finding};
}

const RegisteredRule kRule{{
    .id = "irq.imbalance",
    .title = "One cpu serves the interrupts of several devices or queues",
    .looks_for = "One cpu that serves most device interrupts (irq.*) during the whole job, and is slowed down by them: "
                 "time in interrupts (cpu.irq, cpu.softirq) or dropped packets (softnet.dropped).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 58,
    .look_alikes = "vectors managed by the kernel,few flows",
    .proof = Proof::guest,
    .whole_machine = true,
    .checks_node = true,
    .thresholds = {{"min_rate", 100, "/s", "rate of interrupts from which a vector counts as busy"},
                   {"min_cpu_share", 0.9, "ratio",
                    "part of a vector's interrupts on one cpu from which the vector belongs to that cpu"},
                   {"min_share", 0.6, "ratio", "least part of all device interrupts on that cpu"},
                   {"min_busy", 0.3, "cpus", "time of that cpu in interrupts from which it is a cost"},
                   {"min_dropped", 1, "/s",
                    "rate of packets dropped because of a full backlog from which it is a cost"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --core-spec=1   # reserves a core of each node for the system, if the site allows it",
                     "job"},
                    "grep . /proc/irq/*/effective_affinity_list   # on {node}: the same cpu in most lines"},
    .admin_remedy =
        {"The network driver's set_irq_affinity_bynode.sh spreads them by NUMA node; it excludes irqbalance."},
    .verify = "the cpu's share of irq.* falls below 30 % and its cpu.softirq to that of the others",
    .sources = {"https://docs.kernel.org/core-api/irq/irq-affinity.html",
                "https://docs.kernel.org/networking/scaling.html",
                "https://github.com/Irqbalance/irqbalance/blob/master/irqbalance.1"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::irq_imbalance
