// The job's memory lies on another NUMA node than the cpus that use it. Two measures: where the pages of the job's
// processes lie against the cpus they may use (numa_maps), where that was read and the job is bound to some of the
// nodes; else pages given out by another node than the one that asked (numastat), at allocation time and for the whole
// node.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

/// Bytes that came from, or lie on, another node than that of the cpu, of all.
struct Placement {
  std::string metric;
  double remote = 0;
  double all = 0;
  std::string_view feature;           // what the share is of
  std::string_view feature_of_bytes;  // and the bytes
  std::string_view verb;

  [[nodiscard]] double share() const { return all > 0 ? remote / all : 0; }
};

double sum_of(const RuleContext& context, std::string_view metric) {
  const auto series = context.total_if_measured(metric);
  if (!series) return std::nan("");
  double sum = 0;
  for (const double value : *series) sum += std::isnan(value) ? 0 : value;
  return sum;
}

std::optional<Placement> allocated(const RuleContext& context) {
  const double local = sum_of(context, "numa_local_node");
  const double other = sum_of(context, "numa_other_node");
  const double interleaved = sum_of(context, "numa_interleave_hit");
  if (std::isnan(local) || std::isnan(other)) return std::nullopt;
  // Interleaved pages are meant to lie on all nodes.
  const double meant = std::isnan(interleaved) ? 0 : interleaved;
  const double remote = std::max(0.0, other - meant);
  return Placement{"numa_other_node",
                   remote * context.page_bytes(),
                   (local + other) * context.page_bytes(),
                   "share of the pages given out",
                   "sum",
                   "given out"};
}

/// At the moment at which the job was seen to have most. `open`: NUMA nodes of its cpus; `all`: those that have cpus,
/// since memory without any (HBM, CXL) is nobody's neighbour.
std::optional<Placement> resident(const RuleContext& context, const std::vector<int>& open, const std::set<int>& all) {
  constexpr std::string_view kMetric = "process.numa_bytes";
  constexpr std::string_view kNode = "/node";
  constexpr double kEnough = 0.5;  // of the job's memory: processes too large to be asked are left out
  const std::size_t samples = context.telemetry.samples;
  std::vector<double> seen(samples, 0);
  std::vector<double> elsewhere(samples, 0);
  for (const std::size_t channel : context.channels(kMetric)) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const std::size_t place = std::min(instance.rfind(kNode), instance.size());
    const auto number = parse_int(std::string_view(instance).substr(std::min(place + kNode.size(), instance.size())));
    if (!number) continue;
    const int node = static_cast<int>(*number);
    const bool remote = all.contains(node) && !std::binary_search(open.begin(), open.end(), node);
    const auto series = context.telemetry.series(channel);
    for (std::size_t t = 0; t < samples; ++t) {
      const double bytes = std::isnan(series[t]) ? 0 : series[t];
      seen[t] += bytes;
      if (remote) elsewhere[t] += bytes;
    }
  }
  if (samples == 0) return std::nullopt;
  const auto most = static_cast<std::size_t>(std::max_element(seen.begin(), seen.end()) - seen.begin());
  const auto held = context.total_if_measured("process.rss");
  if (seen[most] <= 0 || !held || !(seen[most] >= kEnough * (*held)[most])) return std::nullopt;
  return Placement{std::string(kMetric),        elsewhere[most],         seen[most],
                   "share of the job's memory", "when the job had most", "used by the job"};
}

std::map<int, int> nodes_of_cpus(const RuleContext& context) {
  constexpr std::string_view kNode = "numa.node";
  constexpr std::string_view kCpus = ".cpus";
  std::map<int, int> nodes;
  for (const auto& [key, value] : context.begin) {
    if (!key.starts_with(kNode) || !key.ends_with(kCpus)) continue;
    const auto node = parse_int(std::string_view(key).substr(kNode.size(), key.size() - kNode.size() - kCpus.size()));
    if (!node) continue;
    for (const int cpu : parse_cpu_list(value)) nodes[cpu] = static_cast<int>(*node);
  }
  return nodes;
}

/// NUMA nodes whose cpus the job may use.
std::vector<int> nodes_open_to_job(const RuleContext& context, const std::map<int, int>& nodes) {
  std::vector<int> open;
  for (const int cpu : parse_cpu_list(context.snapshot_value("job.cpus_allowed"))) {
    const auto node = nodes.find(cpu);
    if (node != nodes.end()) open.push_back(node->second);
  }
  std::sort(open.begin(), open.end());
  open.erase(std::unique(open.begin(), open.end()), open.end());
  return open;
}

/// The largest distance between two nodes; 10 is a node's own memory, 20 and more another socket's.
double largest_distance(const RuleContext& context) {
  double largest = 0;
  for (const auto& [key, value] : context.begin) {
    if (!key.starts_with("numa.node") || !key.ends_with(".distance")) continue;
    std::string_view rest = value;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
      largest = std::max(largest, static_cast<double>(parse_int(word).value_or(0)));
    }
  }
  return largest;
}

std::vector<Finding> check(const RuleContext& context) {
  const std::map<int, int> nodes = nodes_of_cpus(context);
  std::set<int> all;
  for (const auto& [cpu, node] : nodes) all.insert(node);
  if (all.size() < 2) return {};
  const std::vector<int> open = nodes_open_to_job(context, nodes);
  const bool bound = !open.empty() && open.size() < all.size();
  std::optional<Placement> placement = bound ? resident(context, open, all) : std::nullopt;
  if (!placement) placement = allocated(context);
  if (!placement) {
    const bool seen = bound && !context.channels("process.numa_bytes").empty();
    throw Unavailable(seen ? "process.numa_bytes covers less than half of the job's memory, and numa_local_node and "
                             "numa_other_node were not measured"
                           : "not measured: numa_local_node and numa_other_node");
  }
  if (placement->share() < context.threshold("min_share")) return {};
  if (placement->remote < context.threshold("min_bytes") * 1e6) return {};
  const double distance = largest_distance(context);
  if (distance < context.threshold("min_distance")) return {};  // parts of one socket

  Finding finding = context.finding(open.size() == 1 ? JobValues{{"numa_node", std::to_string(open[0])}} : JobValues{});
  finding.severity = Severity::notice;
  finding.confidence = Confidence::likely;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  for (const int node : open) finding.instances.push_back("node" + std::to_string(node));
  finding.impact.how = "not known: no rule estimates what remote memory costs";
  Evidence evidence;
  evidence.metric = placement->metric;
  evidence.node = context.telemetry.node;
  evidence.feature = placement->feature;
  evidence.observed = placement->share();
  evidence.expected = 0;
  evidence.unit = "ratio";
  evidence.span = finding.intervals.front();
  finding.evidence.push_back(evidence);
  evidence.feature = placement->feature_of_bytes;
  evidence.observed = placement->remote;
  evidence.unit = "bytes";
  finding.evidence.push_back(evidence);

  finding.sentence = fmt::format(
      "{:.0f} % of the memory {} on {} ({}) is on another NUMA node than the cpus that use it.",
      100 * placement->share(), placement->verb, context.telemetry.node, quantity(placement->remote, "bytes"));
  if (open.size() == 1) {
    finding.sentence += fmt::format(
        " The job's processes run on node {} alone: their memory is bound elsewhere, or does not fit there.", open[0]);
    finding.runner_up = {"", "processes that move between nodes: these cannot leave theirs"};
  } else if (open.size() > 1) {
    finding.sentence += fmt::format(" The job's processes may run on {} nodes and are not bound to one.", open.size());
    finding.runner_up = {"", "memory that is busy rather than far cannot be ruled out: no rule looks at its bandwidth"};
  }
  return {finding};
}

const RegisteredRule kRule{{
    .id = "numa.mem_remote",
    .title = "Memory lies on another NUMA node than the cpus that use it",
    .looks_for = "Pages of the job's processes on a NUMA node whose cpus they may not use (process.numa_bytes), or "
                 "pages that the kernel had to take from another node (numa.*).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::memory,
    .order = 32,
    .look_alikes = "",
    .proof = Proof::guest,
    .whole_machine = true,
    .thresholds = {{"min_share", 0.25, "ratio", "least part of the memory that is on another node"},
                   {"min_bytes", 200, "MB", "least such memory"},
                   {"min_distance", 16, "SLIT",
                    "least distance of the nodes as firmware says; 10 is the own, 20 a socket"}},
    .user_remedy =
        {{"srun --cpu-bind=ldoms --mem-bind=local {command} ...   # a rank stays on one node, its memory, too", "job"},
         {"torchrun --numa-binding=node ...                     # recent PyTorch does the same", "torch"},
         {"numactl --cpunodebind={numa_node} --membind={numa_node} {command} ...   # --preferred if it may not fit",
          "!job"},
         "numactl --interleave=all {command} ...               # one process larger than a node: spread it"},
    .admin_remedy = {{"slurm.conf: TaskPlugin=task/cgroup,task/affinity      # else --mem-bind does nothing", "job"}},
    .verify = "the share told above stays below a tenth, and the step time falls",
    .sources = {"https://docs.kernel.org/admin-guide/numastat.html", "https://slurm.schedmd.com/srun.html#OPT_mem-bind",
                "https://docs.pytorch.org/docs/main/elastic/numa.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal
