#include "postproc/detect/paper/prune_jobs.h"

#include <spdlog/fmt/fmt.h>

#include <iterator>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/load.h"
#include "postproc/telemetry/publish.h"

namespace reveal {

namespace {

constexpr std::size_t kLeastSamples = 50;  // with fewer, one pair of noise in 5,000 is beyond the paper's threshold

Telemetry node_of(const ListedTrace& file) {
  Telemetry node = load_trace(file.path).telemetry;
  if (node.samples >= kLeastSamples) return node;
  throw Error(fmt::format("{}: {} samples, at least {} are needed to find correlated channels", file.path.string(),
                          node.samples, kLeastSamples));
}

}  // namespace

PruneResult prune_jobs(const PruneOptions& options) {
  RetainedMetrics retained(options.threshold);
  for (const std::filesystem::path& directory : options.directories) {
    const std::vector<ListedTrace> traces = list_traces(directory);
    retained.add_workload(traces.size(), [&traces](std::size_t i) { return node_of(traces[i]); });
  }
  const std::vector<std::string> lines = retained.lines(options.unmoved);
  const PruneResult result{.channels = retained.count(), .lines = lines.size()};
  std::string text = fmt::format(
      "# Metrics that do not move together, for reveal-collect --metrics; by reveal prune from {} {}.\n"
      "# Threshold |r| {:g}: {} of {} channels that moved are kept; {} that never moved are {}.\n",
      options.directories.size(), options.directories.size() == 1 ? "job" : "jobs", options.threshold,
      result.channels.retained, result.channels.moved, result.channels.unmoved,
      options.unmoved == RetainedMetrics::Unmoved::kept ? "kept, too" : "left out");
  for (const std::string& line : lines) text += line + '\n';
  write_output(options.out, text);
  return result;
}

}  // namespace reveal
