#include "postproc/analysis/straggler_threads.h"

#include <map>
#include <string_view>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/main_threads.h"
#include "postproc/telemetry/trace_stream.h"

namespace reveal {

void add_straggler_threads(std::span<const ListedTrace> traces, std::span<const NodeSummary> summaries,
                           std::span<Finding> findings) {
  std::map<std::string_view, const ListedTrace*> sampled;
  for (const NodeSummary& summary : summaries) {
    if (!summary.part.python.empty()) sampled.emplace(summary.node, nullptr);
  }
  for (const ListedTrace& trace : traces) {
    const auto known = sampled.find(trace.node);
    if (known != sampled.end() && known->second == nullptr) known->second = &trace;
  }
  for (Finding& finding : findings) {
    if (finding.kind != FindingKind::peer || finding.nodes.size() != 1) continue;
    const auto trace = sampled.find(finding.nodes.front());
    if (trace == sampled.end() || trace->second == nullptr) continue;
    try {
      const TraceStream stream(trace->second->path);
      const std::vector<PythonSamples> processes = python_samples(stream.trace().events);
      add_main_threads(processes, stream.trace().utc_minus_monotonic_ns, std::span(&finding, 1));
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace reveal
