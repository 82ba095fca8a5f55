// Traffic of GPUs that leaves the node through a card on another NUMA node.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::numa_nic_gpu {
namespace {

struct Hca {
  std::string name;  // "mlx5_0"
  int node = -1;
  double gigabits = 0;  // speed of its fastest port that is up
  double sent = 0;      // bytes/s
};

/// RDMA devices with a port that is up and a known place, with their traffic.
std::vector<Hca> hcas(const RuleContext& context) {
  constexpr std::string_view kPrefix = "rdma.";
  constexpr std::string_view kState = ".state";
  std::map<std::string, Hca> all;
  for (const auto& [key, state] : context.begin) {
    if (!key.starts_with(kPrefix) || !key.ends_with(kState) || state != "ACTIVE") continue;
    const std::string port = key.substr(kPrefix.size(), key.size() - kPrefix.size() - kState.size());
    const std::string device = port.substr(0, port.rfind('.'));
    const auto node = parse_int(context.snapshot_value("rdma." + device + ".numa_node"));
    if (!node || *node < 0) continue;
    Hca& hca = all[device];
    hca.name = device;
    hca.node = static_cast<int>(*node);
    const std::string rate = context.snapshot_value("rdma." + port + ".rate");
    const auto gigabits = parse_int(rate.substr(0, rate.find(' ')));
    hca.gigabits = std::max(hca.gigabits, static_cast<double>(gigabits.value_or(0)));
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

/// A port that could carry the traffic of the job's GPUs from their own node, and hardly does.
std::vector<Finding> check_nics(const RuleContext& context) {
  std::set<int> nodes_of_gpus;
  for (const std::string& gpu : gpus_measured(context)) {
    if (active_phase(gpu_series(context, "gpu.utilization", gpu), 1).length() == 0) continue;
    if (const int node = gpu_numa_node(context, gpu); node >= 0) nodes_of_gpus.insert(node);
  }
  if (nodes_of_gpus.empty()) throw Unavailable("not known: on which NUMA node the GPUs are");
  if (context.channels("ib.xmit_bytes").empty()) throw Unavailable("not measured: ib.xmit_bytes");
  const std::vector<Hca> all = hcas(context);
  double sent = 0;
  const Hca* most = nullptr;
  for (const Hca& hca : all) {
    sent += hca.sent;
    if (most == nullptr || hca.sent > most->sent) most = &hca;
  }
  if (most == nullptr || sent < context.threshold("min_sent") * 1e6) return {};
  if (nodes_of_gpus.contains(most->node)) return {};
  const auto is_near = [&](const Hca& hca) {
    return nodes_of_gpus.contains(hca.node) && hca.gigabits >= most->gigabits;
  };
  const auto near = std::find_if(all.begin(), all.end(), [&](const Hca& hca) {
    return is_near(hca) && hca.sent < context.threshold("max_near_share") * sent;
  });
  if (near == all.end()) return {};
  // All of them: a node with several rails loses bandwidth where the filter names one.
  std::string names;
  for (const Hca& hca : all) {
    if (is_near(hca)) names += (names.empty() ? "" : ",") + hca.name;
  }
  JobValues values{{"near", names}};
  const std::string filter = context.snapshot_value("env.NCCL_IB_HCA");
  if (!filter.empty()) values["filter"] = filter;
  Finding finding = context.finding(values);
  finding.severity = Severity::notice;
  finding.confidence = filter.empty() ? Confidence::possible : Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {most->name, near->name};
  finding.impact.how = "not known: the cost of the path through the other socket was not measured";
  for (const Hca* hca : {most, &*near}) {
    Evidence evidence = fact(context, "ib.xmit_bytes", hca->name, "mean", hca->sent, std::nullopt, "bytes/s");
    finding.evidence.push_back(std::move(evidence));
  }
  finding.sentence = fmt::format(
      "The traffic of {} left through {} on NUMA node {} ({}), but the job's GPUs are on node {}, whose {} carried "
      "{}{}.",
      context.telemetry.node, most->name, most->node, quantity(most->sent, "bytes/s"), near->node, near->name,
      quantity(near->sent, "bytes/s"), filter.empty() ? "" : "; the job itself requests this: NCCL_IB_HCA=" + filter);
  finding.runner_up = {"ib.link_degraded", "a near port that is down or slow: it is up and as fast as the port used"};
  return {finding};
}

const RegisteredRule kNics{{
    .id = "numa.nic_gpu_mismatch",
    .title = "Traffic of GPUs leaves through a card on another NUMA node",
    .looks_for = "RDMA ports on the NUMA node of the job's GPUs with almost no traffic (ib.xmit_bytes) while a port on "
                 "another node carries most of it.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 33,
    .look_alikes = "ib.link_degraded,nccl.wrong_hca_or_unused_rail,a port that the job itself names,little traffic",
    .proof = Proof::test_double,
    .thresholds = {{"min_sent", 50, "MB/s", "mean traffic of all ports"},
                   {"max_near_share", 0.1, "ratio", "largest part of it that the near port carries"}},
    .user_remedy = {{"unset NCCL_IB_HCA   # it is {filter} in this job: without it NCCL chooses by distance", "filter"},
                    {"export NCCL_IB_HCA=={near}   # compare the step time with this run's", "!filter"}},
    .admin_remedy = {"nvidia-smi topo -m   # in virtual machines and containers: does it show the real distances"},
    .verify = "the port near the GPUs carries most of ib.xmit_bytes",
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca"},
    .check = check_nics,
}};

}  // namespace
}  // namespace reveal::rule::numa_nic_gpu
