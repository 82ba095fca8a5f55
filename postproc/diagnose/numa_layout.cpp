#include "postproc/diagnose/numa_layout.h"

#include <algorithm>
#include <limits>

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kNodeKey = "numa.node";

/// 1 of "numa.node1.cpus" for ".cpus".
std::optional<int> node_in_key(std::string_view key, std::string_view ending) {
  if (!key.starts_with(kNodeKey) || !key.ends_with(ending)) return std::nullopt;
  return numa_node_number(key.substr(kNodeKey.size(), key.size() - kNodeKey.size() - ending.size()));
}

/// Rows of the table of distances by node. Its columns are the same nodes, in rising order.
std::map<int, std::vector<double>> distance_rows(const Snapshot& snapshot) {
  std::map<int, std::vector<double>> rows;
  for (const auto& [key, value] : snapshot) {
    const auto node = node_in_key(key, ".distance");
    if (!node) continue;
    std::string_view rest = value;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
      rows[*node].push_back(static_cast<double>(parse_int(word).value_or(0)));
    }
  }
  return rows;
}

void add_distances(const Snapshot& snapshot, NumaLayout& layout) {
  const auto rows = distance_rows(snapshot);
  for (const auto& [from, row] : rows) {
    if (row.size() != rows.size()) continue;  // the nodes of its columns are unknown
    std::size_t column = 0;
    for (const auto& [to, unused] : rows) layout.distances[{from, to}] = row[column++];
  }
}

std::vector<int> sorted_once(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// Their sum where all of them were measured that the kernel has.
std::vector<double> sum_of(const RuleContext& context, std::span<const std::string_view> metrics,
                           const std::string& instance) {
  std::vector<double> sum;
  for (const std::string_view metric : metrics) {
    for (const std::size_t channel : context.channels(metric, instance)) {
      sum.resize(context.telemetry.samples, 0.0);
      const auto series = context.telemetry.series(channel);
      for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += series[t];
    }
  }
  return sum;
}

bool contains(std::span<const int> sorted, int value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

}  // namespace

bool NumaLayout::has_cpus(int node) const {
  return contains(nodes, node);
}

std::optional<int> NumaLayout::node_of(double cpu) const {
  if (!(cpu >= 0 && cpu <= std::numeric_limits<int>::max())) return std::nullopt;
  const auto known = node_of_cpu.find(static_cast<int>(cpu));
  return known == node_of_cpu.end() ? std::nullopt : std::optional(known->second);
}

std::size_t NumaLayout::cpus_of(int node) const {
  return static_cast<std::size_t>(
      std::count_if(node_of_cpu.begin(), node_of_cpu.end(), [node](const auto& cpu) { return cpu.second == node; }));
}

std::optional<double> NumaLayout::distance(int from, int to) const {
  const auto known = distances.find({from, to});
  return known == distances.end() ? std::nullopt : std::optional(known->second);
}

std::optional<double> NumaLayout::distance(std::span<const int> from, int to) const {
  std::optional<double> nearest;
  for (const int node : from) {
    const auto each = distance(node, to);
    if (each) nearest = std::min(nearest.value_or(*each), *each);
  }
  return nearest;
}

bool NumaLayout::is_far(std::span<const int> from, int to, double least) const {
  if (std::find(from.begin(), from.end(), to) != from.end()) return false;
  return distance(from, to).value_or(std::numeric_limits<double>::infinity()) >= least;
}

NumaMemory numa_memory(const RuleContext& context, int node) {
  const std::string instance = "node" + std::to_string(node);
  constexpr std::string_view kTotal[] = {"numa_mem.total"};
  constexpr std::string_view kFree[] = {"numa_mem.free"};
  constexpr std::string_view kCache[] = {"numa_mem.active_file", "numa_mem.inactive_file", "numa_mem.sreclaimable"};
  return {sum_of(context, kTotal, instance), sum_of(context, kFree, instance), sum_of(context, kCache, instance)};
}

NumaLayout numa_layout(const Snapshot& facts, std::string_view job_cpus) {
  constexpr std::size_t kMostCpusListed = 65'536;  // each belongs to one node
  NumaLayout layout;
  std::size_t seen = 0;
  for (const auto& [key, value] : facts) {
    const auto node = node_in_key(key, ".cpus");
    if (!node || seen > kMostCpusListed) continue;
    const std::vector<int> cpus = parse_cpu_list(value);
    for (const int cpu : cpus) layout.node_of_cpu[cpu] = *node;
    seen += cpus.size();
  }
  for (const auto& [cpu, node] : layout.node_of_cpu) layout.nodes.push_back(node);
  layout.nodes = sorted_once(std::move(layout.nodes));
  for (const int cpu : parse_cpu_list(job_cpus)) {
    const auto node = layout.node_of_cpu.find(cpu);
    if (node != layout.node_of_cpu.end()) layout.open.push_back(node->second);
  }
  layout.open = sorted_once(std::move(layout.open));
  add_distances(facts, layout);
  return layout;
}

NumaLayout numa_layout(const RuleContext& context) {
  return numa_layout(context.begin.empty() ? context.end : context.begin, context.snapshot_value("job.cpus_allowed"));
}

std::optional<int> numa_node_number(std::string_view digits) {
  constexpr std::int64_t kNumaNodes = 1024;
  const auto node = parse_int(digits);
  return node && *node >= 0 && *node < kNumaNodes ? std::optional(static_cast<int>(*node)) : std::nullopt;
}

std::optional<int> numa_node_in(std::string_view instance) {
  constexpr std::string_view kNode = "node";
  if (const std::size_t slash = instance.rfind('/'); slash != std::string_view::npos) instance.remove_prefix(slash + 1);
  if (!instance.starts_with(kNode)) return std::nullopt;
  return numa_node_number(instance.substr(kNode.size()));
}

std::vector<int> nodes_run_on(const RuleContext& context, const NumaLayout& layout, std::size_t last_cpu) {
  std::vector<int> nodes;
  nodes.reserve(context.telemetry.samples);
  for (const double cpu : context.telemetry.series(last_cpu)) {
    nodes.push_back(layout.node_of(cpu).value_or(-1));
  }
  return nodes;
}

std::vector<int> nodes_bound_to(const RuleContext& context, const NumaLayout& layout, const std::string& process) {
  if (layout.bound()) return layout.open;
  const auto allowed = context.channels("process.cpus_allowed", process);
  const auto place = context.channels("process.last_cpu", process);
  if (allowed.empty() || place.empty()) return {};
  int home = -1;
  for (const int node : nodes_run_on(context, layout, place.front())) {
    if (node < 0) continue;
    if (home >= 0 && node != home) return {};
    home = node;
  }
  if (home < 0) return {};
  const auto most = static_cast<double>(layout.cpus_of(home));
  for (const double cpus : context.telemetry.series(allowed.front())) {
    if (cpus > most) return {};
  }
  return {home};
}

}  // namespace reveal
