// One metric on several nodes over the job: the nodes that differ, some of their peers, and the median of all peers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/finding.h"
#include "postproc/peers/node_profile.h"

namespace reveal {

struct PeerComparison;

struct MetricAcrossNodes {
  struct Line {
    std::string node;
    bool differs = false;
    double mean = 0;             // over the job
    std::vector<double> values;  // NaN: not measured
    bool operator==(const Line&) const = default;
  };
  std::string channel;
  std::string unit;
  double begin_seconds = 0;  // time of the first value, since the job's begin
  double step_seconds = 0;
  std::size_t peers = 0;              // nodes of which `median` is the median
  std::optional<double> median_mean;  // the median of their means
  std::vector<double> median;         // empty for two nodes
  std::vector<Line> lines;            // those that differ first
  bool operator==(const MetricAcrossNodes&) const = default;
};

/// The metrics of the findings' evidence first, then those in which a node differs most. A few hundred kilobytes at
/// most, however many nodes there are; empty for one node.
[[nodiscard]] std::vector<MetricAcrossNodes> metrics_across(std::span<const NodeProfile* const> nodes,
                                                            const PeerComparison& comparison,
                                                            std::span<const Finding> findings, TimeSpan job);

}  // namespace reveal
