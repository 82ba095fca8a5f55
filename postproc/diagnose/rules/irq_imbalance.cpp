// Several busy interrupt vectors are served by one cpu during the whole job, and that cpu pays for it. A skew by itself
// is no fault: few flows make few busy vectors, and a driver may own the affinity of its vectors.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

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
    if (!is_one_cpu(seed.cpu)) continue;
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

/// Receiving and sending of one queue: "virtio3-input.0" and "virtio3-output.0", "eth2-rx-3" and "eth2-tx-3".
std::string queue_of(const Vector& vector) {
  std::string name = vector.name.empty() ? vector.number : vector.name;
  for (const std::string_view direction : {"input", "output", "rx", "tx", "Rx", "Tx"}) {
    if (const std::size_t at = name.find(direction); at != std::string::npos) name.erase(at, direction.size());
  }
  return name;
}

/// Part of the pile's interrupts that are not of its busiest queue. Few flows fill one queue, and it cannot be spread.
double share_of_other_queues(const Pile& pile) {
  std::map<std::string, double> rates;
  double all = 0;
  double most = 0;
  for (const Vector& vector : pile.vectors) {
    double& rate = rates[queue_of(vector)];
    rate += vector.rate;
    all += vector.rate;
    most = std::max(most, rate);
  }
  return all > 0 ? 1 - most / all : 0;
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
    const double time = other == cpu || !is_one_cpu(other) ? std::nan("") : interrupt_time(context, other);
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

/// The cpus beside the vector's device, if the node's configuration has them, but for the crowded one.
struct Room {
  std::string numa_node;  // "" where it is not known
  std::vector<int> cpus;
};

std::vector<int> without(std::vector<int> cpus, std::string_view crowded) {
  std::erase_if(cpus, [&](int cpu) { return "cpu" + std::to_string(cpu) == crowded; });
  return cpus;
}

Room room_for(const RuleContext& context, const Vector& vector) {
  const std::string numa_node = context.snapshot_value("irq." + vector.number + ".numa_node");
  std::vector<int> near = without(parse_cpu_list(cpus_of_numa_node(context, numa_node)), vector.cpu);
  if (!near.empty()) return {numa_node, std::move(near)};
  return {"", without(parse_cpu_list(context.snapshot_value("cpu.online")), vector.cpu)};
}

/// Packets that its interface sends only from the crowded cpu come back as interrupts there.
std::vector<std::string> lines_for_senders(const RuleContext& context, const Vector& vector, const Room& room) {
  std::vector<std::string> lines;
  for (const std::string& interface : interfaces_of(context.snapshot_value("irq." + vector.number + ".device"))) {
    const std::vector<int> senders = sending_cpus(context, interface);
    const bool alone = senders.size() == 1 && "cpu" + std::to_string(senders.front()) == vector.cpu;
    if (alone) lines.push_back(line_for_senders(interface, room.cpus, senders));
  }
  return lines;
}

struct SpreadingLines {
  std::vector<std::string> vectors;
  std::vector<std::string> senders;
  std::string places;  // "41:1,42:2": a cpu for each vector
};

/// A line for each of the busiest vectors, with a cpu of its own as long as there are enough.
SpreadingLines lines_to_spread(const RuleContext& context, const Pile& pile) {
  constexpr std::size_t kMostLines = 8;
  SpreadingLines lines;
  std::map<std::string, std::size_t> next;  // cpu of each NUMA node
  for (const Vector& vector : pile.vectors) {
    const Room room = room_for(context, vector);
    if (room.cpus.empty()) continue;
    const int cpu = room.cpus[next[room.numa_node]++ % room.cpus.size()];
    lines.vectors.push_back(
        fmt::format("echo {} > /proc/irq/{}/smp_affinity_list   # changes the node until its next boot: {}{}", cpu,
                    vector.number, vector.name.empty() ? "one of the vectors" : vector.name,
                    room.numa_node.empty() ? "" : ", on NUMA node " + room.numa_node));
    lines.places += fmt::format("{}{}:{}", lines.places.empty() ? "" : ",", vector.number, cpu);
    for (std::string& line : lines_for_senders(context, vector, room)) {
      if (std::find(lines.senders.begin(), lines.senders.end(), line) == lines.senders.end()) {
        lines.senders.push_back(std::move(line));
      }
    }
    if (lines.vectors.size() == kMostLines) break;
  }
  return lines;
}

/// irqbalance spreads the vectors where it does not run; where it runs and did not, each is set by hand.
Remedy remedy_of(const RuleContext& context, const Pile& pile) {
  const bool balanced = context.snapshot_value("irq.irqbalance") == "running";
  const SpreadingLines lines = lines_to_spread(context, pile);
  JobValues values;
  if (balanced) values["irqbalance"] = "yes";
  if (!lines.places.empty()) values["places"] = lines.places;
  if (lines.vectors.empty()) values["by_script"] = "yes";
  Remedy remedy = context.finding(values).remedy;
  if (balanced) remedy.admin.insert(remedy.admin.end(), lines.vectors.begin(), lines.vectors.end());
  remedy.admin.insert(remedy.admin.end(), lines.senders.begin(), lines.senders.end());
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
  if (share_of_other_queues(pile) < context.threshold("min_other_queues")) return {};
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
  set_most_loss(context, finding, felt ? std::optional((busy - others) * job_seconds(context)) : std::nullopt,
                felt ? "time that a process of the job on that cpu lost to interrupts, beyond that on other cpus"
                : context.without_job() ? "not known: there was no job"
                                        : "not known: the job may not use that cpu, but its packets wait there");
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
  finding.remedy = remedy_of(context, pile);
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
    .thresholds = {{"min_rate", 20, "/s",
                    "rate of interrupts from which a vector counts as busy: under load, the "
                    "kernel polls instead"},
                   {"min_cpu_share", 0.9, "ratio",
                    "part of a vector's interrupts on one cpu from which the vector belongs to that cpu"},
                   {"min_share", 0.6, "ratio", "least part of all device interrupts on that cpu"},
                   {"min_other_queues", 0.1, "ratio",
                    "least part of that cpu's interrupts that are not of its busiest queue: few flows fill one queue"},
                   {"min_busy", 0.3, "cpus", "time of that cpu in interrupts from which it is a cost"},
                   {"min_dropped", 1, "/s",
                    "rate of packets dropped because of a full backlog from which it is a cost"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"grep . /proc/irq/*/effective_affinity_list   # on {node}: most lines have the same cpu"},
    .admin_remedy =
        {{"systemctl enable --now irqbalance   # changes {node}, also after a boot: it is not running", "!irqbalance"},
         {"Without irqbalance, write a cpu into /proc/irq/N/smp_affinity_list of each vector N (N:cpu): {places}.",
          "!irqbalance", kOr},
         {"systemctl stop irqbalance   # changes {node} until its next boot: it runs but did not spread them",
          "irqbalance"},
         {"Spread the interrupts by NUMA node with set_irq_affinity_bynode.sh of the network card's driver.",
          "irqbalance,by_script"}},
    .verify = {.command = "grep . /proc/irq/*/effective_affinity_list",
               .where = "on the node",
               .expected = "different cpus for the vectors of the device"},
    .sources = {"https://docs.kernel.org/core-api/irq/irq-affinity.html",
                "https://docs.kernel.org/networking/scaling.html",
                "https://github.com/Irqbalance/irqbalance/blob/master/irqbalance.1"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::irq_imbalance
