// A job's anomalous intervals for a viewer of timelines: https://ui.perfetto.dev and chrome://tracing open the Trace
// Event Format.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/report/report.h"
#include "postproc/telemetry/job.h"

namespace reveal {

struct TraceEventChoice {
  std::vector<std::string>
      metrics;             // patterns as of the shell; none: the channels of the report, and calls of functions
  bool whole_job = false;  // not only the report's intervals and their surroundings
};

/// Writes one process per trace, with the report's findings and episodes, the training steps of each rank, and channels
/// as counters. However long the job is, the text stays below some hundred megabytes: counters are means of longer
/// steps where they must be. `out` gets it piece by piece. Returns sentences about omissions. Throws Error where the
/// report has no interval, or no trace can be read.
[[nodiscard]] std::vector<std::string> write_trace_events(const Report& report, std::span<const ListedTrace> traces,
                                                          const TraceEventChoice& choice,
                                                          const std::function<void(std::string_view)>& out);

}  // namespace reveal
