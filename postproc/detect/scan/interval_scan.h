// The interval scan, GAP in reports: over all intervals, how far does the mean inside lie beyond EVERY five-second mean
// outside it? Phases that recur (epochs, checkpoints, the flusher) lie within the range of these means and count
// nothing. It is a scan statistic in time (Kulldorff, A spatial scan statistic, 1997) with that gap as its test
// statistic.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "postproc/detect/scan/reference_means.h"
#include "postproc/detect/scan/scan_series.h"

namespace reveal {

struct ScoredInterval {
  std::size_t begin = 0;
  std::size_t end = 0;  // exclusive
  double score = 0;
};

/// Lengths that are measured against reference means of the same size.
struct ScanLengths {
  std::size_t reference = 50;  // samples of a reference mean; no length is shorter
  std::vector<std::size_t> lengths;
};

struct ScanOptions {
  std::size_t step = 5;  // between interval begins
  std::vector<ScanLengths> sizes;
  std::size_t first = 0;    // sample from which on, as if the job were no longer than `samples`
  std::size_t samples = 0;  // 0: all
  std::size_t every = 1;    // n-th detecting series only
  bool open_end = false;    // also intervals that begin at 0.3 to 0.6 of the samples and never end
};

/// Lengths 3 to 28 s, and on for long jobs, up to 0.4 of the samples.
[[nodiscard]] ScanOptions scan_options(const ScanScale& scale, std::size_t samples);

/// How many of the largest gaps are averaged: 20, or one in twenty of many series, so that a node with more channels is
/// not more often strange by chance. A job of fewer than 60 series averages one in three: a gap of normal scores has a
/// bound, so three channels of twenty could never raise a mean of 20 gaps above the thresholds. A stream keeps 20: its
/// strange windows are episodes already.
[[nodiscard]] std::size_t combined_series(std::size_t detecting, ScanOf of);

/// All intervals with the mean of their largest gaps over the detecting series. Fewer series than combined_series()
/// count as zeros: an event must show in many places, or very strongly in a few.
[[nodiscard]] std::vector<ScoredInterval> scan_intervals(const ScanInput& input, const ScanOptions& options);

/// The scores as if the job had never had the samples of some intervals, which come by their begins. Kept in `rest`
/// where there are any.
[[nodiscard]] std::span<const float> cut_out(std::span<const float> scores, std::span<const ScoredInterval> intervals,
                                             std::vector<float>& rest);

/// Finds begin and end to one sample, by the weighted sum of the series that differ most.
[[nodiscard]] ScoredInterval refine(ReferenceMeans& reference, const ScoredInterval& interval, const ScanScale& scale);

}  // namespace reveal
