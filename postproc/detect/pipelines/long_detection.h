// The default pipeline on a job that comes piece by piece and is never held whole: the same blocks, resolutions,
// thresholds and counters as on a job in memory. What it holds is one block per resolution.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <vector>

#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/error_counters.h"
#include "postproc/detect/scan/scan_block.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

class LongDetection {
 public:
  /// `samples`: of the job. `job` outlives it: node, step and channels; its values are not looked at. `scanning`:
  /// beside the caller, who goes on with the next block, or not. The result is the same.
  LongDetection(const Telemetry& job, std::size_t samples, const DetectOptions& options,
                std::launch scanning = std::launch::deferred);

  /// Pieces must hold a multiple of this, except the last one.
  [[nodiscard]] std::size_t piece_samples() const;
  /// The samples that follow those of the last call.
  void add(const Telemetry& piece);

  /// Samples [begin, begin + samples) of the job once more: the window detectors look at the minutes around an episode.
  using ReadAgain = std::function<Telemetry(std::size_t begin, std::size_t samples)>;
  [[nodiscard]] Detection finish(const ReadAgain& read);

 private:
  /// The job at one resolution: the block that is being filled, then those before are forgotten.
  struct Level {
    std::size_t factor = 1;
    std::size_t searched = 0;  // blocks of this level and all finer ones
    std::vector<ScanBlock> blocks;
    std::size_t next = 0;    // block that is being filled
    std::size_t seen = 0;    // samples that have come
    Telemetry window;        // of that block, with one sample before it
    Telemetry coarser;       // the last piece, for the next level
    std::size_t offset = 0;  // of the window in the job at this resolution
    std::size_t filled = 0;  // samples of the window
  };
  void add(const Telemetry& piece, std::size_t level);
  void fill(const Telemetry& piece, Level& level);
  void scan(Level& level);
  void collect();
  [[nodiscard]] Telemetry empty_window(const Level& level) const;
  void start_block(Level& level, const Telemetry& before) const;
  void describe(Episode& episode) const;

  const Telemetry& job_;
  std::size_t samples_;
  DetectOptions options_;
  ScanScale scale_;
  WindowGrid grid_;
  CounterWatch counters_;
  std::launch scanning_;
  std::vector<Level> levels_;
  std::future<std::vector<Episode>> scanned_;  // the last block
  Detection result_;
};

}  // namespace reveal
