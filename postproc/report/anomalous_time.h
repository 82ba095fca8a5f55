// The time of all anomalous intervals by subsystem, detector and metric. A report lists only the clearest intervals;
// these sums count every one.
#pragma once

#include <vector>

#include "postproc/report/report.h"

namespace reveal {

/// Time in which intervals overlap counts once. `episodes` are those of one node.
[[nodiscard]] std::vector<AnomalousTime> anomalous_time(const std::vector<ReportEpisode>& episodes);

/// Adds a node's time to that of the job.
void add_anomalous_time(const std::vector<AnomalousTime>& of_node, std::vector<AnomalousTime>& of_job);

/// Sets the shares of all anomalous time, and keeps all but the metrics with the least time, the longest
/// first.
void finish_anomalous_time(std::vector<AnomalousTime>& of_job);

}  // namespace reveal
