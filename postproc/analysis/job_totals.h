// The resources that a job used, from the totals of its channels: on each node, and on all of them.
#pragma once

#include <span>
#include <vector>

#include "postproc/analysis/channel_totals.h"
#include "postproc/report/report.h"
#include "postproc/telemetry/load.h"

namespace reveal {

/// Values that were not measured stay unknown, and `notes` have the reason. `shared`: other jobs run on the node, so
/// its totals are not this job's.
[[nodiscard]] JobTotals node_totals(const NodeTrace& trace, std::span<const Channel> channels,
                                    const TraceTotals& totals, double seconds, bool shared);

/// The measured channels that together count all of the job on a node; none where that was not measured.
struct JobChannels {
  std::vector<std::size_t> cpu_time, read_bytes, written_bytes;
  std::vector<std::size_t> network_bytes;  // in both directions, without RDMA
  std::vector<std::size_t> rdma_bytes;     // likewise; with IP over InfiniBand, both count the same bytes
};
[[nodiscard]] JobChannels job_channels(const NodeTrace& trace, std::span<const Channel> channels,
                                       const TraceTotals& totals, bool shared);

/// The whole job. A value that is unknown on one node is unknown.
[[nodiscard]] JobTotals whole_job(std::span<const JobTotals> nodes);

}  // namespace reveal
