// Traffic of GPUs that leaves the node through a card on another NUMA node, or behind the host bridge, although a card
// is nearer.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/nccl_use.h"
#include "postproc/diagnose/pci_tree.h"
#include "postproc/diagnose/rdma_ports.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::numa_nic_gpu {
namespace {

struct Hca {
  std::string name;  // "mlx5_0"
  int node = -1;
  std::string root_port;  // on the PCI bus; "" if it is not known
  double gigabits = 0;    // speed of its fastest port that is up
  double sent = 0;        // bytes/s
};

/// RDMA devices with a port that is up, with their traffic.
std::vector<Hca> hcas(const RuleContext& context) {
  const PciTree tree(context.begin);
  std::map<std::string, Hca> all;
  for (const RdmaPort& port : active_rdma_ports(context)) {
    Hca& hca = all[port.device];
    hca.name = port.device;
    hca.node = static_cast<int>(parse_int(context.snapshot_value("rdma." + port.device + ".numa_node")).value_or(-1));
    hca.root_port = tree.root_port_of_rdma(port.device);
    hca.gigabits = std::max(hca.gigabits, port.rate.gigabits);
  }
  for (const std::size_t channel : context.channels("ib.xmit_bytes")) {
    const std::string& instance = context.telemetry.channels[channel].instance;  // "mlx5_0:1"
    const auto found = all.find(instance.substr(0, instance.find(':')));
    if (found == all.end()) continue;
    const MetricSeries sent = channel_rate(context, channel, 1, "bytes/s");
    const double mean = mean_inside(sent.values, {0, sent.values.size()});
    found->second.sent += std::isnan(mean) ? 0 : mean;
  }
  std::vector<Hca> list;
  list.reserve(all.size());
  for (auto& [name, hca] : all) list.push_back(std::move(hca));
  return list;
}

/// The distance from a card to the nearest of the GPUs that the job uses.
enum class Distance : std::uint8_t { same_switch, same_node, other_node, unknown };

struct PlacesOfGpus {
  std::set<int> nodes;
  std::set<std::string> root_ports;

  [[nodiscard]] bool by_bridges(const Hca& hca) const { return !root_ports.empty() && !hca.root_port.empty(); }
  [[nodiscard]] Distance distance(const Hca& hca) const {
    if (by_bridges(hca) && root_ports.contains(hca.root_port)) return Distance::same_switch;
    const bool by_node = !nodes.empty() && hca.node >= 0;
    if (by_node && !nodes.contains(hca.node)) return Distance::other_node;
    return by_node || by_bridges(hca) ? Distance::same_node : Distance::unknown;
  }
};

PlacesOfGpus places_of_gpus(const RuleContext& context) {
  const PciTree tree(context.begin);
  PlacesOfGpus places;
  for (const std::string& gpu : gpus_measured(context)) {
    if (active_phase(gpu_series(context, "gpu.utilization", gpu), 1).length() == 0) continue;
    if (const int node = gpu_numa_node(context, gpu); node >= 0) places.nodes.insert(node);
    places.root_ports.insert(tree.root_port(gpu_fact(context, gpu, "address")));
  }
  if (places.root_ports.contains("")) places.root_ports.clear();  // any card may be on the switch of that GPU
  return places;
}

/// Within a NUMA node, other traffic of the job may have a card of its own.
bool may_leave_by_any_card(const RuleContext& context) {
  return on_one_node(context) || context.snapshot_value("job.rdma_opened") == "none";
}

Finding nic_finding(const RuleContext& context, const Hca& most, const Hca& near, const std::string& all_near,
                    bool other_node) {
  JobValues values{{"near", all_near}};
  const std::string filter = context.snapshot_value("env.NCCL_IB_HCA");
  if (!filter.empty()) values["filter"] = filter;
  const std::string by_setting = filter.empty() ? "" : "; the job itself requests this: NCCL_IB_HCA=" + filter;
  Finding finding = context.finding(values);
  // Within a NUMA node, another part of the job may have sent it: a parallel file system, for example.
  finding.severity = other_node ? Severity::notice : Severity::info;
  finding.confidence = filter.empty() ? Confidence::possible : Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {most.name, near.name};
  finding.impact.how = fmt::format("not known: the cost of the path through the {} was not measured",
                                   other_node ? "other socket" : "host bridge");
  for (const Hca* hca : {&most, &near}) {
    Evidence evidence = fact(context, "ib.xmit_bytes", hca->name, "mean", hca->sent, std::nullopt, "bytes/s");
    finding.evidence.push_back(std::move(evidence));
  }
  finding.sentence = fmt::format("The traffic of {} left through {} {} ({}), but ", context.telemetry.node, most.name,
                                 other_node ? fmt::format("on NUMA node {}", most.node) : "behind the host bridge",
                                 quantity(most.sent, "bytes/s"));
  finding.sentence += other_node ? fmt::format("the job's GPUs are on node {}, whose {} carried {}{}.", near.node,
                                               near.name, quantity(near.sent, "bytes/s"), by_setting)
                                 : fmt::format("{} is on the PCI switch of a GPU that the job used, and carried {}{}.",
                                               near.name, quantity(near.sent, "bytes/s"), by_setting);
  finding.runner_up = {"ib.link_degraded", "a near port that is down or slow: it is up and as fast as the port used"};
  return finding;
}

/// A port that could carry the traffic of the job's GPUs from a place nearer to them, and hardly does.
std::vector<Finding> check_nics(const RuleContext& context) {
  const PlacesOfGpus places = places_of_gpus(context);
  if (places.nodes.empty() && places.root_ports.empty())
    throw Unavailable("not known: on which NUMA node and below which PCI bridge the GPUs are");
  if (context.channels("ib.xmit_bytes").empty()) throw Unavailable("not measured: ib.xmit_bytes");
  std::vector<Hca> all = hcas(context);
  std::erase_if(all, [&](const Hca& hca) { return places.distance(hca) == Distance::unknown; });
  double sent = 0;
  const Hca* most = nullptr;
  for (const Hca& hca : all) {
    sent += hca.sent;
    if (most == nullptr || hca.sent > most->sent) most = &hca;
  }
  if (most == nullptr || sent < context.threshold("min_sent") * 1e6) return {};
  const bool other_node = places.distance(*most) == Distance::other_node;
  const bool other_switch = places.distance(*most) == Distance::same_node && places.by_bridges(*most);
  if (!other_node && (!other_switch || may_leave_by_any_card(context))) return {};
  const Distance nearer = other_node ? Distance::same_node : Distance::same_switch;
  const auto is_near = [&](const Hca& hca) { return places.distance(hca) <= nearer && hca.gigabits >= most->gigabits; };
  const auto near = std::find_if(all.begin(), all.end(), [&](const Hca& hca) {
    return is_near(hca) && hca.sent < context.threshold("max_near_share") * sent;
  });
  if (near == all.end()) return {};
  // All of them: a node with several rails loses bandwidth where the filter names one.
  std::string names;
  for (const Hca& hca : all) {
    if (is_near(hca)) names += (names.empty() ? "" : ",") + hca.name;
  }
  return {nic_finding(context, *most, *near, names, other_node)};
}

const RegisteredRule kNics{{
    .id = "numa.nic_gpu_mismatch",
    .title = "Traffic of GPUs leaves through a card that is far from them",
    .looks_for =
        "RDMA ports on the NUMA node of the job's GPUs, or below the same PCI switch (pci.*.bridges), with almost "
        "no traffic (ib.xmit_bytes) while a port on another node, or behind the host bridge, carries most of it.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 33,
    .look_alikes = "ib.link_degraded,nccl.wrong_hca_or_unused_rail,a port that the job itself names,little traffic",
    .proof = Proof::test_double,
    .thresholds = {{"min_sent", 50, "MB/s", "mean traffic of all ports"},
                   {"max_near_share", 0.1, "ratio", "largest part of it that the near port carries"}},
    .user_remedy = {{"unset NCCL_IB_HCA   # it is {filter} in this job: without it NCCL chooses by distance", "filter"},
                    {"export NCCL_IB_HCA=={near}   # compare the step time with this run's", "!filter"}},
    .admin_remedy =
        {"nvidia-smi topo -m   # must show the real distances; virtual machines and containers may hide them"},
    .verify = {.expected = "the port near the GPUs carries most of ib.xmit_bytes"},
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca"},
    .check = check_nics,
}};

}  // namespace
}  // namespace reveal::rule::numa_nic_gpu
