#include "postproc/analysis/straggler_threads.h"

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/main_threads.h"
#include "postproc/telemetry/trace_stream.h"

namespace reveal {

void add_straggler_threads(std::span<const ListedTrace> traces, std::span<const NodeSummary> summaries,
                           std::span<Finding> findings) {
  for (Finding& finding : findings) {
    if (finding.kind != FindingKind::peer || finding.nodes.size() != 1) continue;
    const std::string& node = finding.nodes.front();
    const bool sampled = std::any_of(summaries.begin(), summaries.end(), [&node](const NodeSummary& summary) {
      return summary.node == node && !summary.part.python.empty();
    });
    const auto trace =
        std::find_if(traces.begin(), traces.end(), [&node](const ListedTrace& each) { return each.node == node; });
    if (!sampled || trace == traces.end()) continue;
    try {
      const TraceStream stream(trace->path);
      const std::vector<PythonSamples> processes = python_samples(stream.trace().events);
      add_main_threads(processes, stream.trace().utc_minus_monotonic_ns, std::span(&finding, 1));
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace reveal
