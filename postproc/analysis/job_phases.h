// The time of a job, cut into a few phases by the activity of its processes on a node: they computed, read, wrote,
// communicated or waited.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "postproc/analysis/channel_totals.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/telemetry/load.h"

namespace reveal {

/// At most 24 phases, of parts of equal length: the shortest with which so few are enough, and at least a second. A
/// part, by the means over it, is
///   not measured   if the job's cpu time is not known for half of it;
///   computing      if the job's GPUs are used by half or more;
///   reading, writing, communicating
///                  if the job moves a megabyte a second or more, and 100 MB or more in each second of its cpu time;
///                  network traffic counts if it is at least twice that of files, which a server may send, and if the
///                  job uses a hundredth of a cpu, else it is that of others;
///   computing      if it uses half of the cpus or more that it uses when it is busy (the 95th percentile over the
///                  seconds with work);
///   computing on few cpus
///                  if it uses a tenth of a cpu or more;
///   waiting        else.
/// Without the job's cpu time there are none, and the note has the reason. `telemetry` is that of the trace, or the
/// same with longer steps of the grid; `used` has the reasons why values are not known.
[[nodiscard]] NodePhases node_phases(const NodeTrace& trace, const Telemetry& telemetry, const TraceTotals& totals,
                                     bool shared, const JobTotals& used);

/// The phases of all nodes: nodes with the same ones share them. The four that most nodes have; `omitted` counts the
/// nodes with other ones.
[[nodiscard]] std::vector<NodePhases> job_phases(const std::vector<NodeSummary>& summaries,
                                                 std::map<std::string, double>& omitted);

}  // namespace reveal
