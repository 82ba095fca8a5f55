// `reveal watch DIR`: follows every node with a trace in the directory until the job ends.
#pragma once

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/live/alert_forwarding.h"

namespace reveal {

enum class WatchForm : std::uint8_t {
  page,
  lines,
  json,
  step,  // for the machine from which a Slurm job is watched: JSON and reports of the node, cut for srun
};

struct WatchOptions {
  std::filesystem::path directory;
  WatchForm form = WatchForm::lines;
  bool colour = false;
  double share = 0.1;  // share of one core, for the detectors
  AnalysisSettings settings = {};
  ForwardOptions forward = {};
};

enum class WatchEnd : std::uint8_t {
  job_ended,
  nodes_lost,  // nothing is heard of any node that has not closed its trace
  stopped,
};

/// Returns when the job has ended or `stop` is set. An empty directory is waited for; one that holds other files and no
/// trace within ten seconds is not a run's: throws Error. With WatchForm::step, it also ends with its standard input,
/// and a directory that does not come within ten seconds is reported and no error.
[[nodiscard]] WatchEnd watch_job(const WatchOptions& options, std::FILE* out, const std::atomic<bool>& stop);

}  // namespace reveal
