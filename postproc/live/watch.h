// `reveal watch DIR`: follows every node with a trace in the directory until the job ends.
#pragma once

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "postproc/diagnose/analysis_settings.h"
#include "postproc/live/alert_forwarding.h"

namespace reveal {

enum class WatchForm : std::uint8_t { page, lines, json };

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
/// trace within ten seconds is not a run's: throws Error.
[[nodiscard]] WatchEnd watch_job(const WatchOptions& options, std::FILE* out, const std::atomic<bool>& stop);

}  // namespace reveal
