// `reveal prune`: from recorded jobs to the file of metrics that the next ones record.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "postproc/detect/paper/retained_metrics.h"

namespace reveal {

struct PruneOptions {
  std::vector<std::filesystem::path> directories;  // directories of jobs, each a workload
  std::filesystem::path out;
  double threshold = kPaperCorrelation;
  RetainedMetrics::Unmoved unmoved = RetainedMetrics::Unmoved::kept;
  std::size_t values_at_once = 25'000'000;  // half an hour of 1,400 channels; up to twice as many are held
};

struct PruneResult {
  RetainedMetrics::Count channels;
  std::size_t lines = 0;
};

/// Throws Error: no readable trace, one too short to correlate anything, unwritable output.
PruneResult prune_jobs(const PruneOptions& options);

}  // namespace reveal
