// The gap scan: over all intervals, how far does the mean inside lie beyond EVERY five-second mean outside it? Phases
// that recur (epochs, checkpoints, the flusher) lie inside the outside range and count nothing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "postproc/detect/scan_series.h"

namespace reveal {

struct ScoredInterval {
  std::size_t begin = 0;
  std::size_t end = 0;  // exclusive
  double score = 0;
};

/// One series of scores, prepared so that an interval costs a few operations.
class SeriesScan {
 public:
  SeriesScan(std::span<const float> scores, double variance, double hold, std::size_t outside_length);

  /// Measures against outside means of another length from here on.
  void set_outside(std::size_t length);

  /// In white-noise units; 0 when the interval's mean lies within the range of the outside means, or when no outside
  /// mean is left.
  [[nodiscard]] float gap(std::size_t begin, std::size_t end) const;

  /// Signed distance from the mean of the outside means, in units of what varies there plus white noise.
  [[nodiscard]] double z(std::size_t begin, std::size_t end) const;

  /// gap() of intervals begin = 0, step, 2 * step, ... of one length.
  void gaps(std::size_t length, std::size_t step, std::span<float> out) const;

 private:
  [[nodiscard]] double mean(std::size_t begin, std::size_t end) const {
    return (prefix_[end] - prefix_[begin]) / static_cast<double>(end - begin);
  }

  std::size_t samples_ = 0;
  double variance_ = 0;  // of one independent measurement
  std::size_t outside_length_ = 0;
  std::vector<double> prefix_;                  // sums of scores
  std::vector<float> before_max_, before_min_;  // of the outside means that begin at or before s
  std::vector<float> after_max_, after_min_;    // ... at or after s
};

/// Lengths that are measured against outside means of the same size.
struct ScanLengths {
  std::size_t outside = 50;  // samples of an outside mean; no length is shorter
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
/// not more often strange by chance.
[[nodiscard]] std::size_t combined_series(std::size_t detecting);

/// All intervals with the mean of their largest gaps over the detecting series. Fewer series than combined_series()
/// count as zeros: an event must show in many places, or very strongly in a few.
[[nodiscard]] std::vector<ScoredInterval> scan_intervals(const ScanInput& input, const ScanOptions& options);

/// The score of one interval as if the job had never had the samples of the others: an event that happens twice hides
/// itself, since each time lies within the range that the other one opens.
[[nodiscard]] double score_without(const ScanInput& input, const ScoredInterval& interval,
                                   std::vector<ScoredInterval> others, const ScanScale& scale);

/// Groups of two or three like intervals that lie beyond all the rest, their scores without each other. More than three
/// like ones belong to the job.
[[nodiscard]] std::vector<std::vector<ScoredInterval>> find_twins(const ScanInput& input, const ScanScale& scale,
                                                                  double least);

/// Begin and end to one sample, by the weighted sum of the series that speak loudest.
[[nodiscard]] ScoredInterval refine(const ScanInput& input, const ScoredInterval& interval, const ScanScale& scale);

}  // namespace reveal
