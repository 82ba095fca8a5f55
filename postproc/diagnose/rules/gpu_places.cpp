// Where a GPU is in the machine, and what drives it: its processes on the cpus of another NUMA node, or a fabric that
// cannot reach its memory.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// -1 where the firmware does not say it.
int node_of(const RuleContext& context, const std::string& gpu) {
  return static_cast<int>(parse_int(gpu_fact(context, gpu, "numa_node")).value_or(-1));
}

struct Driven {
  std::string process;  // "rank0"
  std::string gpu;
  int node = 0;        // of the GPU
  double share = 0;    // of the looks at which the process was on another node
  bool bound = false;  // it may not run on the GPU's
};

/// GPUs on which a process has memory.
std::map<std::string, std::vector<std::string>> gpus_by_process(const RuleContext& context) {
  std::map<std::string, std::vector<std::string>> all;
  for (const std::size_t channel : context.channels("process.gpu_memory")) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const std::size_t slash = instance.find('/');
    if (slash != std::string::npos) all[instance.substr(0, slash)].push_back(instance.substr(slash + 1));
  }
  return all;
}

std::optional<Driven> driven(const RuleContext& context, const NumaLayout& layout, const std::string& process,
                             const std::string& gpu) {
  const int node = node_of(context, gpu);
  const auto last_cpu = context.channels("process.last_cpu", process);
  if (node < 0 || !layout.has_cpus(node) || last_cpu.empty()) return std::nullopt;
  const auto use = gpu_series(context, "gpu.utilization", gpu);
  const std::vector<int> places = nodes_run_on(context, layout, last_cpu.front());
  double away = 0;
  double looks = 0;
  for (std::size_t t = 0; t < places.size(); ++t) {
    if (places[t] < 0 || (!use.empty() && !(use[t] > 0))) continue;
    looks += 1;
    away += layout.is_far(std::span(&places[t], 1), node, context.threshold("min_distance")) ? 1 : 0;
  }
  if (context.telemetry.step_seconds * looks < context.threshold("min_seconds")) return std::nullopt;
  const std::vector<int> bound = nodes_bound_to(context, layout, process);
  return Driven{process, gpu, node, away / looks,
                !bound.empty() && layout.is_far(bound, node, context.threshold("min_distance"))};
}

std::vector<Finding> check_cpus(const RuleContext& context) {
  const NumaLayout layout = numa_layout(context);
  if (layout.nodes.empty()) throw Unavailable("not measured: which cpus are on which NUMA node");
  if (layout.nodes.size() < 2) return {};
  const auto by_process = gpus_by_process(context);
  if (by_process.empty()) throw Unavailable("not measured: which process uses which GPU (process.gpu_memory)");
  std::vector<Driven> far;
  bool known = false;
  for (const auto& [process, gpus] : by_process) {
    // One process for GPUs on several nodes is far from some of them in any case: that is another question.
    std::vector<int> nodes;
    for (const std::string& gpu : gpus) nodes.push_back(node_of(context, gpu));
    known = known || std::any_of(nodes.begin(), nodes.end(), [](int node) { return node >= 0; });
    if (std::adjacent_find(nodes.begin(), nodes.end(), std::not_equal_to<>()) != nodes.end()) continue;
    const auto found = driven(context, layout, process, gpus.front());
    if (found && found->share > context.threshold("min_share")) far.push_back(*found);
  }
  if (!known) throw Unavailable("not known: on which NUMA node the GPUs are (the firmware does not say)");
  if (far.empty()) return {};
  std::stable_sort(far.begin(), far.end(), [](const Driven& a, const Driven& b) { return a.bound > b.bound; });
  const Driven& worst = far.front();
  std::vector<int> cpus;
  for (const auto& [cpu, node] : layout.node_of_cpu) {
    if (node == worst.node) cpus.push_back(cpu);
  }
  JobValues values = gpu_values(context, worst.gpu);
  values["cpus"] = format_cpu_list(cpus);
  values["node"] = std::to_string(worst.node);
  Finding finding = context.finding(values);
  finding.severity = worst.bound ? Severity::warning : Severity::notice;
  finding.confidence = worst.bound ? Confidence::certain : Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  for (const Driven& one : far) finding.instances.push_back(one.process + "/" + one.gpu);
  finding.impact.how = "not known: each copy and each launch crosses to the other NUMA node";
  finding.evidence.push_back({.metric = "process.last_cpu",
                              .instance = worst.process,
                              .node = context.telemetry.node,
                              .feature = "part of the time on another NUMA node",
                              .observed = worst.share,
                              .expected = 0,
                              .unit = "ratio",
                              .span = finding.intervals.front(),
                              .detectors = {},
                              .score = std::nullopt});
  finding.sentence = fmt::format(
      "{} drives {} of {} from another NUMA node: the GPU is on node {} (cpus {}), and {} ran elsewhere {} % "
      "of the time it worked{}.",
      context.rank_name(worst.process), gpu_name(context, worst.gpu), context.telemetry.node, worst.node,
      format_cpu_list(cpus), worst.process, number(100 * worst.share),
      worst.bound ? ", because it may not run there" : "");
  if (far.size() > 1) finding.sentence += fmt::format(" {} more processes do the same.", far.size() - 1);
  finding.runner_up = {"gpu.starved_input", "cpus that are full: here they are far from the GPU"};
  return {finding};
}

struct Hca {
  std::string name;  // "mlx5_0"
  int node = -1;
  double gigabits = 0;  // of its fastest port that is up
  double sent = 0;      // bytes/s
};

/// RDMA devices with a port that is up and whose place is known, with what they sent.
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
    const Signal sent = channel_rate(context, channel, 1, "bytes/s");
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
    if (const int node = node_of(context, gpu); node >= 0) nodes_of_gpus.insert(node);
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
  const auto near = std::find_if(all.begin(), all.end(), [&](const Hca& hca) {
    return nodes_of_gpus.contains(hca.node) && hca.gigabits >= most->gigabits &&
           hca.sent < context.threshold("max_near_share") * sent;
  });
  if (near == all.end()) return {};
  JobValues values{{"near", near->name}};
  const std::string filter = context.snapshot_value("env.NCCL_IB_HCA");
  if (!filter.empty()) values["filter"] = filter;
  Finding finding = context.finding(values);
  finding.severity = Severity::notice;
  finding.confidence = filter.empty() ? Confidence::possible : Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.instances = {most->name, near->name};
  finding.impact.how = "not known: what the way through the other socket costs was not measured";
  for (const Hca* hca : {most, &*near}) {
    Evidence evidence = gpu_evidence(context, hca->name, "ib.xmit_bytes", "mean", hca->sent, std::nullopt, "bytes/s");
    finding.evidence.push_back(std::move(evidence));
  }
  finding.sentence = fmt::format(
      "The traffic of {} left through {} on NUMA node {} ({}), and the job's GPUs are on node {}, whose {} carried "
      "{}{}.",
      context.telemetry.node, most->name, most->node, quantity(most->sent, "bytes/s"), near->node, near->name,
      quantity(near->sent, "bytes/s"), filter.empty() ? "" : "; the job itself asks for it: NCCL_IB_HCA=" + filter);
  finding.runner_up = {"ib.link_degraded", "a near port that is down or slow: it is up and as fast as the other one"};
  return {finding};
}

/// nvidia_peermem serves cards of NVIDIA (Mellanox) only; others bring a way of their own.
bool only_nvidia_cards(const RuleContext& context) {
  constexpr std::string_view kPrefix = "rdma.";
  std::set<std::string> devices;
  std::set<std::string> nvidia;
  for (const Snapshot* facts : {&context.begin, &context.end}) {
    for (const auto& [key, value] : *facts) {
      if (!key.starts_with(kPrefix)) continue;
      const std::string device = key.substr(kPrefix.size(), key.find('.', kPrefix.size()) - kPrefix.size());
      devices.insert(device);
      const bool type = key == std::string(kPrefix) + device + ".type" && value.starts_with("MT");
      if (type || device.starts_with("mlx5_")) nvidia.insert(device);
    }
  }
  return !devices.empty() && nvidia == devices;
}

std::vector<Finding> check_gdr(const RuleContext& context) {
  const std::string module = context.snapshot_value("gpu_driver.kernel_module");
  if (module.empty()) throw Unavailable("not known: the kernel module of the NVIDIA driver");
  const std::string opened = context.snapshot_value("job.rdma_opened");
  if (opened.empty()) throw Unavailable("not measured: the RDMA devices the job opened (job.rdma_opened)");
  if (opened == "none" || context.snapshot_value("env.SLURM_JOB_NUM_NODES") == "1") return {};
  if (!context.values().contains("nccl") || !only_nvidia_cards(context)) return {};
  // The open kernel module gives its memory to the fabric by DMA-BUF, and needs no other one.
  const bool peermem = context.snapshot_value("gpu_driver.peer_memory") == "loaded";
  if (module == "open" || peermem) return {};
  Finding finding = context.finding();
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "not known: what the job moved through host memory for it was not measured";
  finding.evidence.push_back(
      gpu_evidence(context, "", "gpu_driver.peer_memory", "modules that are loaded", 0, 1, "count"));
  finding.sentence = fmt::format(
      "NCCL cannot move data from the GPUs of {} to the fabric directly: nvidia_peermem is not loaded, and the "
      "driver's "
      "kernel module is not the open one, so all of it goes through host memory.",
      context.telemetry.node);
  finding.runner_up = {"nccl.socket_fallback", "the job's processes hold RDMA devices open: the fabric is used"};
  return {finding};
}

const RegisteredRule kCpus{{
    .id = "numa.cpu_gpu_mismatch",
    .title = "A process drives a GPU from another NUMA node",
    .looks_for = "Processes with memory on a GPU (process.gpu_memory) that run on cpus (process.last_cpu) of another "
                 "NUMA node than the GPU's.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 32,
    .look_alikes = "gpu.starved_input,one process for GPUs of several nodes,firmware that does not say the node,"
                   "a neighbouring node of the same socket",
    .proof = Proof::test_double,
    .thresholds = {{"min_share", 0.5, "ratio", "part of the time on another node"},
                   {"min_distance", 20, "distance", "from which memory is another socket's; 10 is the own"},
                   {"min_seconds", 20, "s", "shortest time in which the GPU works"}},
    .user_remedy = {{"srun --gpus-per-task=1 --gpu-bind=closest --cpu-bind=cores ...   # with --cpus-per-task", "job"},
                    {"sbatch --gres-flags=enforce-binding ...   # only cpus near the GPUs; may start later", "job"},
                    {"numactl --cpunodebind={node} --membind={node} {command} ...   # cpus {cpus}, for GPU {gpu}",
                     "!job"}},
    .admin_remedy = {"gres.conf: AutoDetect=nvml   # so that Slurm knows which cpus are near which GPU"},
    .verify = "each process runs on the cpus that nvidia-smi topo -m shows for its GPU",
    .sources = {"https://slurm.schedmd.com/gres.conf.html", "https://github.com/NVIDIA/gpu_affinity",
                "https://github.com/PrincetonUniversity/jobstats/issues/34"},
    .check = check_cpus,
}};

const RegisteredRule kNics{{
    .id = "numa.nic_gpu_mismatch",
    .title = "Traffic of GPUs leaves through a card on another NUMA node",
    .looks_for =
        "RDMA ports on the NUMA node of the job's GPUs that hardly carry anything (ib.xmit_bytes) while one on "
        "another node carries most.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 33,
    .look_alikes = "ib.link_degraded,nccl.wrong_hca_or_unused_rail,a port that the job itself names,little traffic",
    .proof = Proof::test_double,
    .thresholds = {{"min_sent", 50, "MB/s", "mean traffic of all ports"},
                   {"max_near_share", 0.1, "ratio", "part of it that the near port carries"}},
    .user_remedy = {{"unset NCCL_IB_HCA   # it is {filter} in this job: without it NCCL chooses by distance", "filter"},
                    {"export NCCL_IB_HCA=={near}   # compare the step time with this run's", "!filter"}},
    .admin_remedy = {"nvidia-smi topo -m   # in virtual machines and containers: does it show the real distances"},
    .verify = "most of ib.xmit_bytes is at the port near the GPUs",
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca"},
    .check = check_nics,
}};

const RegisteredRule kGdr{{
    .id = "nccl.gdr_unavailable",
    .title = "NCCL cannot move data between GPUs and the fabric directly",
    .looks_for = "A job of several nodes that uses NCCL over RDMA (job.libraries, job.rdma_opened) on a node without "
                 "nvidia_peermem and without the open kernel module (gpu_driver.*).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 42,
    .look_alikes = "nccl.socket_fallback,the open kernel module with DMA-BUF,cards of other makers",
    .proof = Proof::test_double,
    .user_remedy =
        {{"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET srun {command} ...   # once: lines with GDRDMA, or none", "job"},
         {"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET {command} ...   # once: lines with GDRDMA, or none", "!job"}},
    .admin_remedy = {"modprobe nvidia_peermem; echo nvidia_peermem > /etc/modules-load.d/nvidia_peermem.conf"},
    .verify = "NCCL's lines of NET/IB end in GDRDMA",
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
                "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html"},
    .check = check_gdr,
}};

}  // namespace
}  // namespace reveal
