#include "postproc/detect/paper/prune_jobs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <string>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/publish.h"
#include "postproc/telemetry/trace_stream.h"

namespace reveal {

namespace {

constexpr std::size_t kLeastSamples = 50;  // with fewer, one pair of noise in 5,000 is beyond the paper's threshold

/// The traces of a job one after the other, long ones in pieces of the same length: each counts as a node.
class PiecesOfJob {
 public:
  PiecesOfJob(const std::filesystem::path& directory, std::size_t values_at_once) {
    for (const ListedTrace& file : list_traces(directory)) {
      const TraceStream stream(file.path);
      const std::size_t samples = stream.samples();
      if (samples < kLeastSamples) {
        throw Error(fmt::format("{}: {} samples, at least {} are needed to find correlated channels",
                                file.path.string(), samples, kLeastSamples));
      }
      const std::size_t channels = std::max<std::size_t>(stream.trace().telemetry.channels.size(), 1);
      const std::size_t at_once = std::max(kLeastSamples, values_at_once / channels);
      const std::size_t count = std::max<std::size_t>(samples / at_once, 1);
      for (std::size_t i = 0; i < count; ++i)
        pieces_.push_back({file.path, samples * i / count, samples * (i + 1) / count});
    }
  }

  [[nodiscard]] std::size_t size() const { return pieces_.size(); }
  /// In their order.
  [[nodiscard]] Telemetry load(std::size_t number) {
    const Piece& piece = pieces_[number];
    if (piece.begin == 0) stream_.emplace(piece.trace);
    return stream_->read(piece.begin, piece.end - piece.begin);
  }

 private:
  struct Piece {
    std::filesystem::path trace;
    std::size_t begin, end;  // samples
  };
  std::vector<Piece> pieces_;
  std::optional<TraceStream> stream_;
};

}  // namespace

PruneResult prune_jobs(const PruneOptions& options) {
  RetainedMetrics retained(options.threshold);
  for (const std::filesystem::path& directory : options.directories) {
    PiecesOfJob pieces(directory, options.values_at_once);
    retained.add_workload(pieces.size(), [&pieces](std::size_t i) { return pieces.load(i); });
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
