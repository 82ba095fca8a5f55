// A pipeline turns one node's telemetry into episodes. `reveal` is the default, `paper` reproduces arXiv 2510.26008
// literally. Same seed, same result, on any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

class WindowPool;

struct DetectOptions {
  double window_seconds = 3;
  double stride_seconds = 1;
  std::uint64_t seed = 0;
  double prune_above = 0.5;    // mean |r| beyond which `paper` keeps one channel of several; 1 and more: it keeps all
  bool keep_windows = true;    // fill Detection::windows; on servers, strange ones are episodes
  bool every_channel = false;  // reasons name all channels, not only the first kMaxReasons; windows have reasons too
  bool in_background = false;  // scan beside the caller, which reads the next piece meanwhile: the same result, sooner
  WindowPool* windows = nullptr;  // memory that jobs of many pieces share
};

/// Samples [begin, begin + samples) of the job once more.
using ReadAgain = std::function<Telemetry(std::size_t begin, std::size_t samples)>;

/// The detection of one node's job. Its samples come in pieces that follow each other: a job in memory is one piece.
class JobDetection {
 public:
  virtual ~JobDetection() = default;
  /// A piece that is not the last one holds a multiple of this.
  [[nodiscard]] virtual std::size_t piece_samples() const = 0;
  /// A piece that is the whole job is borrowed: it outlives finish().
  virtual void add(const Telemetry& piece) = 0;
  /// `read`: not needed for a job in one piece.
  [[nodiscard]] virtual Detection finish(const ReadAgain& read) = 0;
};

struct Pipeline {
  std::string_view name;
  std::string_view help;
  /// Begins the detection of a job of so many samples. `job` outlives it: node, step and channels; its values are not
  /// looked at.
  std::unique_ptr<JobDetection> (*start)(const Telemetry& job, std::size_t samples, const DetectOptions& options);
  bool needs_whole_job = false;  // in one piece, even where memory is short

  /// Runs on a job in memory.
  [[nodiscard]] Detection run(const Telemetry& job, const DetectOptions& options) const;
};

/// Throws Error naming the near one for an unknown name.
[[nodiscard]] const Pipeline& find_pipeline(std::string_view name);
[[nodiscard]] const std::vector<Pipeline>& pipelines();

}  // namespace reveal
