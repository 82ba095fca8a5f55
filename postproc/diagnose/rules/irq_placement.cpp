// The interrupts of a network card are all served on one cpu because no service spreads them, or far from the card.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/interrupt_causes.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::irq_placement {
namespace {

/// The vectors of one card.
struct Card {
  std::string device;
  std::string numa_node;
  std::vector<CardVector> vectors;
};

std::vector<Card> cards(const RuleContext& context) {
  std::map<std::string, Card> by_device;
  for (CardVector& vector : card_vectors(context)) {
    Card& card = by_device[vector.device];
    card.device = vector.device;
    card.numa_node = vector.numa_node;
    card.vectors.push_back(std::move(vector));
  }
  std::vector<Card> all;
  all.reserve(by_device.size());
  for (auto& [device, card] : by_device) all.push_back(std::move(card));
  return all;
}

/// "eth2", or the address of a card without an interface.
std::string name_of_card(const Card& card) {
  const auto interfaces = interfaces_of(card.device);
  return interfaces.empty() ? card.device.substr(0, card.device.find(' ')) : interfaces.front();
}

/// Interrupts of the card in a second, by the cpu that served them: "cpu3", "other_cpus".
std::map<std::string, double> served(const RuleContext& context, const Card& card) {
  std::map<std::string, double> rates;
  for (const CardVector& vector : card.vectors) {
    for (const std::size_t channel : context.channels("irq." + vector.number)) {
      const double mean = mean_inside(context.telemetry.series(channel), {0, context.telemetry.samples});
      if (std::isnan(mean)) continue;
      rates[context.telemetry.channels[channel].instance] += mean / context.telemetry.step_seconds;
    }
  }
  return rates;
}

double sum_of(const std::map<std::string, double>& rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0,
                         [](double sum, const auto& rate) { return sum + rate.second; });
}

bool contains(const std::vector<int>& cpus, int cpu) {
  return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
}

Finding notice(const RuleContext& context, const Card& card, const JobValues& values) {
  JobValues all = values;
  if (const auto interfaces = interfaces_of(card.device); !interfaces.empty()) all["interface"] = interfaces.front();
  Finding finding = context.finding(all);
  finding.severity = Severity::notice;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {name_of_card(card)};
  return finding;
}

/// Receive packet steering hands the packets on: the interrupt itself is little work.
bool is_steered(const RuleContext& context, const Card& card) {
  const auto interfaces = interfaces_of(card.device);
  return std::any_of(interfaces.begin(), interfaces.end(), [&](const std::string& name) {
    return context.snapshot_value("net." + name + ".rps_cpus").find_first_not_of("0, ") != std::string::npos;
  });
}

/// The one cpu that serves all of them.
std::optional<int> only_cpu(const Card& card) {
  const std::vector<int>& first = card.vectors.front().cpus;
  const bool same = std::all_of(card.vectors.begin(), card.vectors.end(),
                                [&](const CardVector& vector) { return vector.cpus == first; });
  return same && first.size() == 1 ? std::optional(first.front()) : std::nullopt;
}

/// Mean of a counter of one cpu per second; NaN if it was not measured.
double mean_on(const RuleContext& context, std::string_view metric, const std::string& cpu) {
  const auto channels = context.channels(metric, cpu);
  if (channels.empty()) return std::nan("");
  return mean_inside(context.telemetry.series(channels.front()), {0, context.telemetry.samples}) /
         context.telemetry.step_seconds;
}

/// The cost of the pile, as far as it was measured.
void set_cost(const RuleContext& context, const std::string& cpu, Finding& finding) {
  const double busy = 1e-9 * mean_on(context, "cpu.softirq", cpu);
  const double dropped = mean_on(context, "softnet.dropped", cpu);
  if (std::isnan(busy) || std::isnan(dropped)) {
    finding.impact.how = "not known: time in interrupts and dropped packets of that cpu were not measured";
    finding.runner_up = {"irq.imbalance", "it needs the time in interrupts and the dropped packets of that cpu"};
    return;
  }
  const std::string cost = fmt::format("{} spent {} % of its time in soft interrupts and dropped {} packets/s", cpu,
                                       number(100 * busy), number(dropped));
  finding.impact.how = (dropped > 0 ? "not known: " : "none seen: ") + cost;
  finding.runner_up = {"irq.imbalance", cost};
}

/// The card without the vectors that served nothing in the job: the kernel moves a vector with its next interrupt, and
/// until then shows it on the cpu that it had before.
Card used(const RuleContext& context, Card card) {
  std::erase_if(card.vectors, [&](const CardVector& vector) {
    const auto rates = served(context, {.device = card.device, .numa_node = card.numa_node, .vectors = {vector}});
    return !rates.empty() && sum_of(rates) == 0;
  });
  return card;
}

std::optional<Finding> crowded(const RuleContext& context, const Card& all_vectors) {
  const Card card = context.without_job() ? all_vectors : used(context, all_vectors);
  if (static_cast<double>(card.vectors.size()) < context.threshold("min_vectors") || is_steered(context, card)) {
    return std::nullopt;
  }
  const auto cpu = only_cpu(card);
  if (!cpu) return std::nullopt;
  const auto rates = served(context, card);
  const bool measured = !rates.empty();
  const double rate = sum_of(rates);
  if (!context.without_job()) {
    // A cpu that the job may not use was set aside for this.
    if (!contains(parse_cpu_list(context.snapshot_value("job.cpus_allowed")), *cpu)) return std::nullopt;
    if (!measured) throw Unavailable("not measured: interrupts of the network cards");
    if (rate < context.threshold("min_rate")) return std::nullopt;
  }
  Finding finding = notice(context, card, {});
  finding.confidence = Confidence::likely;
  set_cost(context, "cpu" + std::to_string(*cpu), finding);
  finding.evidence.push_back(snapshot_fact(context, "irq.effective_affinity", "cpu" + std::to_string(*cpu),
                                           static_cast<double>(card.vectors.size()), std::nullopt, "count"));
  if (measured)
    finding.evidence.push_back(fact(context, "irq.*", name_of_card(card), "mean", rate, std::nullopt, "count/s"));
  finding.sentence = fmt::format(
      "irqbalance is not running on {}, and cpu{} serves all {} {}interrupt vectors of {}{}.", context.telemetry.node,
      *cpu, card.vectors.size(), card.vectors.size() < all_vectors.vectors.size() ? "used " : "", name_of_card(card),
      measured ? " (" + quantity(rate, "count/s") + ")" : "");
  return finding;
}

std::vector<Finding> check_service(const RuleContext& context) {
  const std::string service = context.snapshot_value("irq.irqbalance");
  if (service.empty()) throw Unavailable("not measured: irq.irqbalance");
  if (service == "running" || !context.snapshot_value("cpu.isolated").empty()) return {};
  if (found_before(context, "irq.imbalance")) return {};
  const auto cpus = parse_cpu_list(context.snapshot_value("cpu.online")).size();
  if (cpus == 0) throw Unavailable("not measured: cpu.online");
  if (static_cast<double>(cpus) < context.threshold("min_cpus")) return {};
  std::vector<Finding> findings;
  for (const Card& card : cards(context)) {
    if (auto finding = crowded(context, card)) findings.push_back(*std::move(finding));
  }
  return findings;
}

/// Counts of the interrupts with a known cpu.
struct Share {
  double known = 0;
  double remote = 0;
};

Share share_of(const std::map<std::string, double>& rates, const std::vector<int>& near) {
  constexpr std::string_view kCpu = "cpu";
  Share share;
  for (const auto& [cpu, rate] : rates) {
    const auto number = cpu.starts_with(kCpu) ? parse_int(std::string_view(cpu).substr(kCpu.size())) : std::nullopt;
    if (!number) continue;
    share.known += rate;
    if (!contains(near, static_cast<int>(*number))) share.remote += rate;
  }
  return share;
}

/// A job on the other socket may be better off with its packets there.
bool job_is_elsewhere(const RuleContext& context, const std::vector<int>& near) {
  const std::vector<int> allowed = parse_cpu_list(context.snapshot_value("job.cpus_allowed"));
  return !allowed.empty() && std::none_of(allowed.begin(), allowed.end(), [&](int cpu) { return contains(near, cpu); });
}

std::optional<Finding> far_away(const RuleContext& context, const Card& card) {
  const std::string list = cpus_of_numa_node(context, card.numa_node);
  const std::vector<int> near = parse_cpu_list(list);
  if (near.empty() || job_is_elsewhere(context, near)) return std::nullopt;
  const auto rates = served(context, card);
  const double all = sum_of(rates);
  const Share share = share_of(rates, near);
  if (!(all >= context.threshold("min_rate"))) return std::nullopt;
  // On a node with many cpus, most of them are measured together.
  if (share.known < all / 2) throw Unavailable("not measured: which cpus served most of the network's interrupts");
  const double remote = share.remote / share.known;
  if (!(remote > context.threshold("min_share"))) return std::nullopt;

  Finding finding =
      notice(context, card, {{"numa_node", card.numa_node}, {"near_cpus", list}, {"irq", card.vectors.front().number}});
  finding.confidence = Confidence::certain;
  finding.impact.how = "not known: only a run with the interrupts on the card's NUMA node shows it";
  finding.evidence.push_back(
      fact(context, "irq.*", name_of_card(card), "share on another NUMA node", remote, std::nullopt, "ratio"));
  finding.evidence.push_back(fact(context, "irq.*", name_of_card(card), "mean", all, std::nullopt, "count/s"));
  finding.sentence = fmt::format(
      "{:.0f} % of the interrupts of {} on {} ({}) were served on another NUMA node than node {}, where the card is.",
      100 * remote, name_of_card(card), context.telemetry.node, quantity(all, "count/s"), card.numa_node);
  finding.runner_up = {"irq.imbalance", "too few cpus on the right NUMA node: here the cpus are on another node"};
  for (const std::string& interface : interfaces_of(card.device)) {
    const std::vector<int> senders = sending_cpus(context, interface);
    const bool far = std::none_of(senders.begin(), senders.end(), [&](int cpu) { return contains(near, cpu); });
    if (!senders.empty() && far) finding.remedy.admin.push_back(line_for_senders(interface, near, senders));
  }
  return finding;
}

std::vector<Finding> check_distance(const RuleContext& context) {
  if (context.snapshot_value("numa.node0.cpus").empty()) throw Unavailable("not measured: cpus of the NUMA nodes");
  if (context.snapshot_value("numa.node1.cpus").empty() && context.snapshot_value("numa.nodes") == "0") return {};
  std::vector<Finding> findings;
  for (const Card& card : cards(context)) {
    if (auto finding = far_away(context, card)) findings.push_back(*std::move(finding));
  }
  return findings;
}

const RegisteredRule kService{{
    .id = "irq.balance_service_off",
    .title = "The interrupts of a network card are not spread over cpus",
    .looks_for = "A node without irqbalance (irq.irqbalance) on which one cpu serves all vectors of a network card "
                 "(irq.N.effective) and they are busy (irq.N).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 59,
    .look_alikes = "irq.imbalance,packet steering,cpus set aside for interrupts,vectors managed by the kernel",
    .proof = Proof::guest,
    .whole_machine = true,
    .checks_node = true,
    .thresholds = {{"min_vectors", 4, "vectors", "least vectors of a card on the same cpu"},
                   {"min_cpus", 4, "cpus", "least cpus of the node among which they could be spread"},
                   {"min_rate", 1000, "/s", "least rate of interrupts of the card, if there is a job"}},
    .user_remedy = {"grep . /proc/irq/*/effective_affinity_list   # on {node}: most lines have the same cpu"},
    .admin_remedy = {"systemctl enable --now irqbalance   # changes the node, also after a boot: spreads interrupts; "
                     "IRQBALANCE_BANNED_CPULIST excludes cpus",
                     {"set_irq_affinity.sh {interface}   # changes the node until its next boot: of mlnx-tools; one "
                      "cpu for each vector",
                      kOr}},
    .verify = {.command = "grep . /proc/irq/*/effective_affinity_list",
               .where = "on the node",
               .expected = "different cpus for the vectors of the card"},
    .sources = {"https://github.com/Irqbalance/irqbalance/blob/master/irqbalance.1",
                "http://fasterdata.es.net/host-tuning/interrupt-binding"},
    .check = check_service,
}};

const RegisteredRule kDistance{{
    .id = "irq.remote_numa",
    .title = "A network card's interrupts are served on another NUMA node",
    .looks_for = "Interrupts of network cards (irq.N) on cpus outside of the card's NUMA node (irq.N.numa_node, "
                 "numa.nodeN.cpus).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 60,
    .look_alikes = "irq.imbalance,a job on the other node,vectors managed by the kernel",
    .proof = Proof::guest,
    .whole_machine = true,
    .checks_node = true,
    .thresholds = {{"min_rate", 1000, "/s", "least rate of interrupts of the card"},
                   {"min_share", 0.5, "ratio", "part of them on another NUMA node from which they are reported"}},
    .user_remedy = {"cat /sys/class/net/{interface}/device/numa_node   # on {node}: the card's NUMA node"},
    .advice = {"Place the ranks that communicate on the card's NUMA node."},
    .admin_remedy = {"set_irq_affinity_bynode.sh {numa_node} {interface}   # changes the node until its next boot: "
                     "vectors to that NUMA node; of mlnx-tools; irqbalance must not run then",
                     {"echo {near_cpus} > /proc/irq/{irq}/smp_affinity_list   # changes the node until its next boot: "
                      "for each vector of the card",
                      kOr}},
    .verify = {.command = "reveal check",
               .where = "on the node, while a job uses the card",
               .expected = "irq.remote_numa in the list \"ok\""},
    .sources = {"http://fasterdata.es.net/host-tuning/interrupt-binding",
                "https://docs.kernel.org/core-api/irq/irq-affinity.html"},
    .check = check_distance,
}};

}  // namespace
}  // namespace reveal::rule::irq_placement
