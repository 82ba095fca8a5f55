// The default pipeline: the interval scan and the error counters find, the window detectors give a second opinion. One
// analysis for all: a job in memory is one piece, which is borrowed; a job that memory cannot hold comes in many, of
// which one block per resolution is kept; a job that still runs is one piece so far.
#pragma once

#include <cstddef>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "postproc/detect/pipeline.h"
#include "postproc/detect/pipelines/sample_window.h"
#include "postproc/detect/scan/error_counters.h"
#include "postproc/detect/scan/scan_block.h"
#include "postproc/detect/windows/second_opinion.h"
#include "postproc/detect/windows/window_scores.h"
#include "postproc/features/window_grid.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

class IntervalDetection final : public JobDetection {
 public:
  /// All settings for which a running job differs.
  struct Policy {
    /// Blocks of the job before this one. Live detection keeps none of them; each was one more chance of a high score.
    std::size_t blocks_before = 0;
    /// The first sample is the job's. Live, after ten minutes, it is not: no imports are trimmed there.
    bool starts = true;
    /// Live: an interval up to the last sample may go on, and there is no tear-down to be trimmed.
    bool running = false;
    /// Whether the window detectors give a second opinion. Not live: detection repeats every second or so, and the
    /// caller requests it for an alert when it publishes it.
    bool second_opinion = true;
  };

  /// The arguments are those of Pipeline::start.
  IntervalDetection(const Telemetry& job, std::size_t samples, const DetectOptions& options, Policy policy);

  [[nodiscard]] std::size_t piece_samples() const override;
  void add(const Telemetry& piece) override;
  /// The window detectors look once more at the minutes around an episode.
  [[nodiscard]] Detection finish(const ReadAgain& read) override;

 private:
  /// The job at one resolution: the block that is being filled, then those before are forgotten.
  struct Level {
    std::size_t factor = 1;
    std::size_t searched = 0;  // blocks of this level and all finer ones
    std::vector<ScanBlock> blocks;
    std::size_t next = 0;    // block that is being filled
    std::size_t seen = 0;    // samples that have come
    SampleWindow window;     // window of that block, with one sample before it
    Telemetry coarser;       // the last piece, for the next level
    std::size_t offset = 0;  // offset of the window in the job at this resolution
    std::size_t filled = 0;  // samples of the window
  };
  void plan_levels();
  void add(const Telemetry& piece, std::size_t level);
  void fill(const Telemetry& piece, Level& level);
  void scan(Level& level);
  void collect();
  void take(BlockScan found);
  void start_block(Level& level, SampleWindow& before, bool looked_at);
  void describe(Episode& episode) const;
  void run_window_detectors(const ReadAgain& read);

  const Telemetry& job_;
  std::size_t samples_;
  DetectOptions options_;
  Policy policy_;
  ScanScale scale_;
  WindowGrid grid_;
  CounterWatch counters_;
  std::size_t reasons_;  // kept of an episode
  std::vector<Level> levels_;
  const Telemetry* whole_ = nullptr;     // the job, if it came in one piece
  std::optional<WindowScores> windows_;  // scores of a job in one piece
  WindowPool own_windows_;
  WindowPool& window_pool_;
  std::future<std::pair<BlockScan, SampleWindow>> scanned_;  // the last block
  Detection result_;
};

}  // namespace reveal
