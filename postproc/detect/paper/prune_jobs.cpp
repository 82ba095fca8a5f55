#include "postproc/detect/paper/prune_jobs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <string>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/publish.h"
#include "postproc/telemetry/trace_stream.h"

namespace reveal {

namespace {

constexpr std::size_t kLeastSamples = 50;  // with fewer, one pair of noise in 5,000 is beyond the paper's threshold

/// A long trace is read in pieces of the same length.
NodePieces pieces_of(const ListedTrace& file, std::size_t values_at_once) {
  const auto stream = std::make_shared<TraceStream>(file.path);
  const std::size_t samples = stream->samples();
  if (samples < kLeastSamples) {
    throw Error(fmt::format("{}: {} samples, at least {} are needed to find correlated channels", file.path.string(),
                            samples, kLeastSamples));
  }
  const std::size_t channels = std::max<std::size_t>(stream->trace().telemetry.channels.size(), 1);
  const std::size_t at_once = std::max(kLeastSamples, values_at_once / channels);
  const std::size_t count = std::max<std::size_t>(samples / at_once, 1);
  return {.count = count, .load = [stream, samples, count](std::size_t i) {
            const std::size_t begin = samples * i / count;
            return stream->read(begin, samples * (i + 1) / count - begin);
          }};
}

}  // namespace

PruneResult prune_jobs(const PruneOptions& options) {
  RetainedMetrics retained(options.threshold);
  for (const std::filesystem::path& directory : options.directories) {
    const std::vector<ListedTrace> traces = list_traces(directory);
    retained.add_workload(traces.size(), [&](std::size_t i) { return pieces_of(traces[i], options.values_at_once); });
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
