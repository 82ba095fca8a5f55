// An InfiniBand or RoCE port that runs slower than it did, than its kind does, or than that of the job's other nodes.
// Narrow or slow ports by design exist (split cables, HDR100, a port for management), so no port is held against the
// most that its adapter can do.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/peers/job_rule.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/lists.h"

namespace reveal::rule::ib_link_degraded {
namespace {

constexpr std::string_view kRdma = "rdma.";
constexpr std::string_view kRate = ".rate";
constexpr std::string_view kState = ".state";
constexpr std::string_view kUp = "ACTIVE";

/// When the port's link failed or trained again; nothing where that was not counted.
std::optional<TimeSpan> when_it_fell(const RuleContext& context, const RdmaPort& port) {
  for (const char* metric : {"ib.link_downed", "ib.link_error_recovery"}) {
    if (context.channels(metric, port.name).empty()) continue;
    for (const EventCount& count : counted_events(context, metric)) {
      if (context.telemetry.channels[count.channel].instance == port.name) {
        return context.span(count.at.begin, count.at.end);
      }
    }
  }
  return std::nullopt;
}

Finding at_port(const RuleContext& context, const RdmaPort& port, double gigabits, std::optional<double> expected) {
  Finding finding = context.finding(port.values());
  finding.severity = Severity::warning;
  finding.instances = {port.name};
  finding.impact.how = "not known: the traffic at full link speed was not measured";
  finding.runner_up = {"", "a port that is slow by design: it would be slow from the start, and on other nodes"};
  finding.intervals = {when_it_fell(context, port).value_or(context.span(0, context.telemetry.samples))};
  finding.evidence.push_back({.metric = "rdma." + port.key + ".rate",
                              .instance = port.name,
                              .node = context.telemetry.node,
                              .feature = "value",
                              .observed = gigabits,
                              .expected = expected,
                              .unit = "Gb/s",
                              .span = finding.intervals.front(),
                              .detectors = {Method::snapshot}});
  return finding;
}

std::optional<Finding> degraded(const RuleContext& context, const RdmaPort& port) {
  const std::string_view state = fact_in(context.end, "rdma." + port.key + ".state").value_or("");
  const LinkRate rate = link_rate_of(fact_in(context.end, "rdma." + port.key + ".rate").value_or(""));
  if (!state.empty() && state != kUp) {
    Finding finding = at_port(context, port, 0, port.rate.gigabits);
    finding.confidence = Confidence::certain;
    finding.sentence = fmt::format("The link of {} on {} was up when {} began, with {:g} Gb/s, and {} at its end{}.",
                                   port.name, context.telemetry.node, context.watched(), port.rate.gigabits, state,
                                   when_it_fell(context, port) ? "" : "; when that changed is not known");
    finding.runner_up = {"", "a port without a cable: it would have been down from the start"};
    return finding;
  }
  if (rate.gigabits > 0 && rate.gigabits < port.rate.gigabits) {
    Finding finding = at_port(context, port, rate.gigabits, port.rate.gigabits);
    finding.confidence = Confidence::certain;
    finding.sentence = fmt::format("The link of {} on {} fell from {:g} to {:g} Gb/s while {} ran.", port.name,
                                   context.telemetry.node, port.rate.gigabits, rate.gigabits, context.watched());
    return finding;
  }
  // Adapters have two or four lanes; Ethernet has links of one.
  if (port.link_layer != "InfiniBand" || port.rate.lanes != 1) return std::nullopt;
  Finding finding = at_port(context, port, port.rate.gigabits, std::nullopt);
  finding.confidence = Confidence::likely;
  finding.sentence = fmt::format("The link of {} on {} runs on one lane, at {:g} Gb/s: its other lanes do not work.",
                                 port.name, context.telemetry.node, port.rate.gigabits);
  finding.runner_up = {"", "a port that is slow by design: adapters have at least two lanes"};
  return finding;
}

std::vector<Finding> check_node(const RuleContext& context) {
  const std::vector<RdmaPort> ports = active_rdma_ports(context);
  if (ports.empty()) throw Unavailable("not measured: the links of InfiniBand or RoCE ports (none is up here)");
  std::vector<Finding> findings;
  for (const RdmaPort& port : ports) {
    if (auto finding = degraded(context, port)) findings.push_back(*std::move(finding));
  }
  return findings;
}

/// "mlx5_0:1" of "rdma.mlx5_0.1.rate"
std::string port_of(std::string_view key, std::string_view fact) {
  std::string name(key.substr(kRdma.size(), key.size() - kRdma.size() - fact.size()));
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) name[dot] = ':';
  return name;
}

/// Whether it is worse than on most nodes; a faster port slows no job down.
bool is_worse(const FactDifference& fact) {
  if (!fact.key.starts_with(kRdma)) return false;
  if (fact.key.ends_with(kState)) return fact.usual == kUp;
  return fact.key.ends_with(kRate) && link_rate_of(fact.value).gigabits < link_rate_of(fact.usual).gigabits;
}

/// Whether the port of this name is, on all nodes on which it is as usual, of the device type and link layer of this
/// node's. Nodes with different adapters give the same name to different ports.
bool is_comparable(const JobRuleContext& context, const FactDifference& fact, const std::string& node) {
  const std::string port = fact.key.substr(0, fact.key.rfind('.'));
  const std::string type = port.substr(0, port.rfind('.')) + ".type";
  const std::string layer = port + ".link_layer";
  const auto own = std::find_if(context.nodes.begin(), context.nodes.end(),
                                [&](const NodeProfile* profile) { return profile->node == node; });
  if (own == context.nodes.end()) return false;
  return std::all_of(context.nodes.begin(), context.nodes.end(), [&](const NodeProfile* other) {
    return fact_in(other->facts, fact.key) != fact.usual ||
           (fact_in(other->facts, type) == fact_in((*own)->facts, type) &&
            fact_in(other->facts, layer) == fact_in((*own)->facts, layer));
  });
}

std::vector<JobFinding> check_job(const JobRuleContext& context, const EffectiveRule& rule) {
  std::set<std::string> nodes;
  std::set<std::string> ports;
  std::set<std::string> reported;  // a port that is down has a low rate, too
  std::vector<std::string> words;
  std::vector<Evidence> evidence;
  for (const bool states : {true, false}) {
    for (const FactDifference& fact : context.comparison.facts) {
      if (!is_worse(fact) || fact.key.ends_with(kState) != states) continue;
      const std::string port = port_of(fact.key, states ? kState : kRate);
      std::vector<std::string> fresh;
      for (const std::string& node : fact.nodes) {
        if (!is_comparable(context, fact, node)) continue;
        if (reported.insert(node + ' ' + port).second) fresh.push_back(node);
      }
      if (fresh.empty()) continue;
      nodes.insert(fresh.begin(), fresh.end());
      ports.insert(port);
      words.push_back(
          fmt::format("{} of {} is {} ({} on most other nodes)", port, node_list(fresh), fact.value, fact.usual));
      Evidence one{.metric = fact.key, .instance = fact.value, .node = fresh.front(), .feature = "value"};
      if (!states) {
        one.instance = port;
        one.observed = link_rate_of(fact.value).gigabits;
        one.expected = link_rate_of(fact.usual).gigabits;
        one.unit = "Gb/s";
      }
      one.span = context.job;
      one.detectors = {Method::peer_comparison};
      evidence.push_back(std::move(one));
    }
  }
  if (words.empty()) return {};
  Finding finding = rule.finding({nodes.begin(), nodes.end()});
  finding.severity = Severity::notice;
  finding.confidence = Confidence::certain;
  finding.instances.assign(ports.begin(), ports.end());
  finding.intervals = {context.job};
  finding.impact.how = "not known: only a run without these nodes shows it";
  finding.evidence = std::move(evidence);
  finding.sentence = "Nodes of the job have a slower fabric: " + listed(words, 3, "; ") + ".";
  finding.runner_up = {"node.config_drift", "a rate is not a setting: both ends of the link negotiated it"};
  const std::string& first = finding.instances.front();
  const std::size_t colon = first.find(':');
  if (colon == std::string::npos) return {finding};
  const std::string device = first.substr(0, colon);
  JobValues values{{"device", device}, {"port", first.substr(colon + 1)}};
  const bool mlx = std::any_of(context.nodes.begin(), context.nodes.end(), [&](const NodeProfile* node) {
    return has_mlx_tools(device, fact_in(node->facts, "rdma." + device + ".type").value_or(""));
  });
  if (mlx || has_mlx_tools(device, "")) values["mlx"] = "yes";
  return {{finding, values}};
}

const RegisteredJobRule kRule(
    check_job,
    {
        .id = "ib.link_degraded",
        .title = "The link of an InfiniBand or RoCE port is down or slow",
        .looks_for = "Ports whose rate (rdma.*.rate) fell while the job ran, that run on one lane, or that are down or "
                     "slower than the port of that name on most of the job's nodes.",
        .kind = FindingKind::audit,
        .subsystem = Subsystem::network,
        .order = 16,
        .look_alikes =
            "a second port that is down everywhere,a port that is slow by design,another adapter of the same "
            "name,pcie.link_downtrained",
        .proof = Proof::guest,
        .checks_node = true,
        .user_remedy = {{"#SBATCH --exclude={nodes}   # until the link is repaired", "job"},
                        "ibstat | grep -E \"^CA|Rate|State\"   # on {node} and on another node"},
        .admin_remedy = {{"mlxlink -d {device} -p {port}   # the link's best state, and the reason for its present "
                          "one; mstlink of mstflint does the same",
                          "mlx"},
                         {"scontrol update nodename={nodes} state=drain reason=fabric   # changes the state in Slurm: "
                          "no new job starts there",
                          "job"},
                         "Reseat, clean or replace the cable; check the switch port; compare the firmware of nodes."},
        .verify = {.command = "ibstat | grep -E 'CA|Rate|State'",
                   .where = "on the node",
                   .expected = "the rate of the other nodes"},
        .sources = {"https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband"},
        .check = check_node,
    },
    JobRuleOf::settings);

}  // namespace
}  // namespace reveal::rule::ib_link_degraded
