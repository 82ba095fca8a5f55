// The cpus of each NUMA node, the distances of the nodes, and the nodes on which the job may run: as
// far as the snapshot has it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {

struct NumaLayout {
  std::map<int, int> node_of_cpu;
  std::vector<int> nodes;  // nodes with cpus: memory without any (HBM, CXL) has no neighbour
  std::vector<int> open;   // those on which the job may run
  std::map<std::pair<int, int>, double> distances;

  /// The job can leave none of the nodes it is open to, and there are others.
  [[nodiscard]] bool bound() const { return !open.empty() && open.size() < nodes.size(); }
  [[nodiscard]] bool has_cpus(int node) const;
  /// The node of a sampled cpu number, which may be any number in a foreign trace; nothing if it is not known.
  [[nodiscard]] std::optional<int> node_of(double cpu) const;
  [[nodiscard]] std::size_t cpus_of(int node) const;
  /// As the firmware reports it: 10 is a node's own memory, 20 and more another socket's. Nothing where the snapshot
  /// lacks it.
  [[nodiscard]] std::optional<double> distance(int from, int to) const;
  /// Returns the distance from the nearest of some nodes.
  [[nodiscard]] std::optional<double> distance(std::span<const int> from, int to) const;
  /// Whether memory there is remote: at that distance or more, or at one that is not known.
  [[nodiscard]] bool is_far(std::span<const int> from, int to, double least) const;
};

/// Levels of a node's memory in bytes per grid step; empty where they were not measured.
struct NumaMemory {
  std::vector<double> total;
  std::vector<double> free;
  std::vector<double> cache;  // pages of files, and the kernel's own, that can be dropped for others
};
[[nodiscard]] NumaMemory numa_memory(const RuleContext& context, int node);

[[nodiscard]] NumaLayout numa_layout(const Snapshot& facts, std::string_view job_cpus);
[[nodiscard]] NumaLayout numa_layout(const RuleContext& context);

/// The number of a NUMA node; nothing for an impossible number.
[[nodiscard]] std::optional<int> numa_node_number(std::string_view digits);
/// 1 of "node1", "rank0/node1"; nothing for anything else.
[[nodiscard]] std::optional<int> numa_node_in(std::string_view instance);

/// The nodes between which the main thread of a process was seen to change, one sample after the other; -1 where it was
/// not measured.
[[nodiscard]] std::vector<int> nodes_run_on(const RuleContext& context, const NumaLayout& layout, std::size_t last_cpu);

/// The nodes a process is bound to: those of the job where that is bound itself, else the one its main thread never
/// left, if the process may use no more cpus than that has. Empty where it is bound to none.
[[nodiscard]] std::vector<int> nodes_bound_to(const RuleContext& context, const NumaLayout& layout,
                                              const std::string& process);

}  // namespace reveal
