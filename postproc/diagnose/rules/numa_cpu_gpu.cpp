// Processes that drive a GPU from the cpus of another NUMA node.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::numa_cpu_gpu {
namespace {

struct Driven {
  std::string process;  // "rank0"
  std::string gpu;
  int node = 0;        // NUMA node of the GPU
  double share = 0;    // share of the looks at which the process was on another node
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
  const int node = gpu_numa_node(context, gpu);
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
    for (const std::string& gpu : gpus) nodes.push_back(gpu_numa_node(context, gpu));
    known = known || std::any_of(nodes.begin(), nodes.end(), [](int node) { return node >= 0; });
    if (std::adjacent_find(nodes.begin(), nodes.end(), std::not_equal_to<>()) != nodes.end()) continue;
    const auto found = driven(context, layout, process, gpus.front());
    if (found && found->share > context.threshold("min_share")) far.push_back(*found);
  }
  if (!known) throw Unavailable("not known: the NUMA nodes of the GPUs (the firmware does not report them)");
  if (far.empty()) return {};
  std::stable_sort(far.begin(), far.end(), [](const Driven& a, const Driven& b) { return a.bound > b.bound; });
  const Driven& worst = far.front();
  std::vector<int> cpus;
  for (const auto& [cpu, node] : layout.node_of_cpu) {
    if (node == worst.node) cpus.push_back(cpu);
  }
  JobValues values = gpu_values(context, worst.gpu);
  values["cpus"] = format_cpu_list(cpus);
  values["numa_node"] = std::to_string(worst.node);
  Finding finding = context.finding(values);
  finding.severity = worst.bound ? Severity::warning : Severity::notice;
  finding.confidence = worst.bound ? Confidence::certain : Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  for (const Driven& one : far) finding.instances.push_back(one.process + "/" + one.gpu);
  finding.impact.how = "not known: each copy and each kernel launch crosses to the other NUMA node";
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
      "{} uses {} of {} from another NUMA node: the GPU is on node {} (cpus {}), and {} ran on other nodes for {} % of "
      "the time it worked{}.",
      context.rank_name(worst.process), gpu_name(context, worst.gpu), context.telemetry.node, worst.node,
      format_cpu_list(cpus), worst.process, number(100 * worst.share),
      worst.bound ? ", because its cpu mask excludes that node" : "");
  if (far.size() > 1) finding.sentence += fmt::format(" This holds for {} more processes.", far.size() - 1);
  finding.runner_up = {"gpu.starved_input", "full cpus: here the cpus are on another NUMA node than the GPU"};
  return {finding};
}

const RegisteredRule kCpus{{
    .id = "numa.cpu_gpu_mismatch",
    .title = "A process uses a GPU from another NUMA node",
    .looks_for = "Processes with memory on a GPU (process.gpu_memory) that run on cpus (process.last_cpu) of another "
                 "NUMA node than the GPU's.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 32,
    .look_alikes = "gpu.starved_input,one process for GPUs of several nodes,firmware that does not report the node,"
                   "a neighbouring node of the same socket",
    .proof = Proof::test_double,
    .thresholds = {{"min_share", 0.5, "ratio", "part of the time on another node"},
                   {"min_distance", 20, "distance",
                    "distance from which memory belongs to another socket; 10 is the own node"},
                   {"min_seconds", 20, "s", "shortest time in which the GPU works"}},
    .user_remedy = {{"#SBATCH --gres-flags=enforce-binding   # only cpus near the GPUs; the job may start later",
                     "job"},
                    {"srun --gpu-bind=none --cpu-bind=ldoms   # one task for each GPU; each takes the GPU with the "
                     "number SLURM_LOCALID",
                     "job", kOr},
                    {"numactl --cpunodebind={numa_node} --preferred={numa_node}   # cpus {cpus}, for GPU {gpu}",
                     "!job"}},
    .admin_remedy = {"gres.conf: AutoDetect=nvml   # then Slurm knows the cpus near each GPU"},
    .verify = {.expected = "each process runs on cpus of its GPU's NUMA node"},
    .sources = {"https://slurm.schedmd.com/gres.conf.html", "https://github.com/NVIDIA/gpu_affinity",
                "https://github.com/PrincetonUniversity/jobstats/issues/34"},
    .check = check_cpus,
}};

}  // namespace
}  // namespace reveal::rule::numa_cpu_gpu
