// The nodes of one job against each other. In a data-parallel job nodes that do the same work should look the same;
// one that does not is the first suspect. The groups of nodes with the same work are found, not assumed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/finding.h"
#include "postproc/peers/node_profile.h"

namespace reveal {

/// Nodes that do the same kind of work.
struct PeerGroup {
  std::vector<std::string> nodes;
  bool compared = false;
  std::string reason;        // why these nodes were not compared, or the limits of it
  double seconds = 0;        // wall time in which all of them lived
  std::size_t channels = 0;  // compared
  bool operator==(const PeerGroup&) const = default;
};

/// One channel of one node, whole job, that its peers do not share.
struct PeerDeviation {
  std::string node;
  std::string channel;
  std::string unit;
  Subsystem subsystem = Subsystem::cpu;
  double observed = 0;
  double expected = 0;  // median of the other nodes of its group
  double percent = 0;
  double t = 0;
  double p = 1;
  bool telling = false;  // shows the state of the node; else the work may differ, as for a rank that logs
  bool operator==(const PeerDeviation&) const = default;
};

/// A cell of the map of nodes and subsystems.
struct PeerCell {
  std::string node;
  Subsystem subsystem = Subsystem::cpu;
  std::size_t channels = 0;  // that deviate
  double percent = 0;        // the largest of them, signed
  bool operator==(const PeerCell&) const = default;
};

/// A configuration fact in which a few nodes differ from most of their job.
struct FactDifference {
  std::string key;
  std::vector<std::string> nodes;
  std::string value;
  std::string usual;  // usual value of the others
  bool operator==(const FactDifference&) const = default;
};

/// The node for which the others wait; `node` is "" when there is none, or it is not known; `reason` has which.
struct Straggler {
  std::string node;
  std::string signal;
  double observed = 0;  // cpus
  double expected = 0;
  double seconds = 0;  // that the others waited for it, of the job's time
  double percent = 0;
  std::string reason;
  bool operator==(const Straggler&) const = default;
};

struct PeerComparison {
  bool compared = false;
  std::string reason = "nodes were not compared with each other";  // why not
  std::vector<PeerGroup> groups;
  std::size_t tests = 0;
  std::vector<PeerDeviation> deviations;  // by node, then by falling |t|
  std::size_t deviations_left_out = 0;
  std::vector<PeerCell> cells;
  std::vector<FactDifference> facts;
  Straggler straggler;
  std::string sentence;  // the line of the report
  bool operator==(const PeerComparison&) const = default;
};

[[nodiscard]] PeerComparison compare_peers(const std::vector<const NodeProfile*>& nodes,
                                           const AnalysisSettings& settings = {});

/// Configuration facts that most nodes share and a few do not; none for fewer than three nodes.
[[nodiscard]] std::vector<FactDifference> fact_differences(const std::vector<const NodeProfile*>& nodes);

/// Nodes that differ in at least so many telling metrics, with these differences.
using DifferingNodes = std::map<std::string, std::vector<const PeerDeviation*>>;
[[nodiscard]] DifferingNodes nodes_that_differ(const std::vector<PeerDeviation>& deviations, double least_metrics);

/// Null for a node that was not there.
[[nodiscard]] const PeerGroup* group_of(const PeerComparison& comparison, const std::string& node);

/// Whether the peers of `node` did the same at the same time: the share of them with the same change of trend in every
/// one of `channels`. Nothing if that is unknown.
[[nodiscard]] std::optional<double> share_of_peers_alike(const NodeProfile& node,
                                                         const std::vector<const NodeProfile*>& peers, TimeSpan span,
                                                         const std::vector<std::string>& channels);

}  // namespace reveal
