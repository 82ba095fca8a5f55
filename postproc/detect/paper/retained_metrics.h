// The metrics that several jobs need: pruning after section 4.1 of the paper, the union over workloads, as lines of the
// file that `reveal-collect --metrics` reads. For storage and the width of a PCA, never for attribution.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "postproc/detect/paper/pruning.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

inline constexpr std::size_t kMostPrunedChannels = 5000;  // all are compared with all

/// One node in pieces that follow each other, of which one is in memory.
struct NodePieces {
  std::size_t count = 1;
  std::function<Telemetry(std::size_t)> load;  // called for all pieces in their order, and once more
};

class RetainedMetrics {
 public:
  explicit RetainedMetrics(double threshold = kPaperCorrelation) : threshold_(threshold) {}

  /// One workload: a job's nodes. Correlations are averaged over the nodes on which both channels move. Throws Error
  /// beyond kMostPrunedChannels.
  void add_workload(const std::vector<Telemetry>& nodes);
  /// The same for a job with nodes that together do not fit into memory: `node` brings one after the other.
  void add_workload(std::size_t nodes, const std::function<NodePieces(std::size_t)>& node);

  /// A metric with all instances kept is one line; instances that differ from job to job (processes, control groups)
  /// are never named. A metric that never moved anywhere is not known to be redundant: an error counter stands still
  /// until it matters.
  enum class Unmoved { kept, dropped };
  [[nodiscard]] std::vector<std::string> lines(Unmoved unmoved) const;

  /// Numbers of channels of all workloads together.
  struct Count {
    std::size_t moved = 0, retained = 0, unmoved = 0;
  };
  [[nodiscard]] Count count() const;

 private:
  using Key = std::pair<std::string, std::string>;  // metric, instance
  void note(const Channel& channel);
  [[nodiscard]] bool keeps(const Key& key, Unmoved unmoved) const;

  double threshold_;
  std::set<Key> seen_, moved_, retained_;
  std::set<std::string> of_the_job_;  // metrics with instances that exist only in this job
};

}  // namespace reveal
