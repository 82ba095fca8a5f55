// Excursions: intervals in which one series stands above its own usual level, with sharp ends. Rules search their own
// signals for them, also where the general detectors found nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "hdf5schema/basics/not_measured.h"

namespace reveal {

struct Interval {
  std::size_t begin = 0;
  std::size_t end = 0;  // exclusive

  [[nodiscard]] std::size_t length() const { return end - begin; }
};

[[nodiscard]] std::size_t overlap(Interval a, Interval b);

/// With `margin` samples more at both ends, as far as the series has them.
[[nodiscard]] Interval widened(Interval at, std::size_t margin, std::size_t samples);

/// Means skip missing samples; NaN when there is none.
[[nodiscard]] double mean_inside(std::span<const double> series, Interval interval);
[[nodiscard]] double mean_outside(std::span<const double> series, std::span<const Interval> excluded);

/// Means of all windows of `length` outside of the excluded intervals, in the order of time: a fifth of a window may be
/// in them, or missing, and does not count.
[[nodiscard]] std::vector<double> window_means(std::span<const double> series, std::span<const Interval> excluded,
                                               std::size_t length);
/// The same, sorted.
[[nodiscard]] std::vector<double> reference_means(std::span<const double> series, std::span<const Interval> excluded,
                                                  std::size_t length);

struct ExcursionSearch {
  double min_excess = 0;       // inside mean above the outside mean
  double left_out = kNaN;      // least excess of what does not count as outside; the same one where it is not set
  std::size_t min_length = 1;  // samples
  std::size_t window = 50;     // outside is judged by means of windows of at most this length
  double min_score = 4;
};

struct Excursion {
  Interval at;
  double inside = 0;
  double outside = 0;
  double score = 0;        // excess in standard deviations of the outside windows' means
  bool beyond = false;     // above every outside window: no phase of the job reaches it
  bool recurring = false;  // one of many similar intervals: a pattern of this series, not an event
  bool most = false;       // found by find_lasting_excursions()
};

/// Returns the excursions by falling excess x length. Missing samples belong to neither side.
[[nodiscard]] std::vector<Excursion> find_excursions(std::span<const double> series, const ExcursionSearch& search);

/// Excursions that together last longer than the usual level, up to two thirds of the series: the lower level is the
/// usual one, and was seen before and after each. Empty if this is no such series. A job may also do other work for
/// most of the time between its begin and its end: the caller must exclude this case.
[[nodiscard]] std::vector<Excursion> find_lasting_excursions(std::span<const double> series,
                                                             const ExcursionSearch& search);

/// A level that rose once and stayed so to the end, for most of the series: with a single level on each side, of which
/// the lower one is the usual one, though the series never returned to it. Nothing if this is no such series. A job may
/// also do other work from some time on: the caller must exclude this case.
[[nodiscard]] std::optional<Excursion> find_rise(std::span<const double> series, const ExcursionSearch& search);

/// Where they are: to leave them all out of the usual level.
[[nodiscard]] std::vector<Interval> places(std::span<const Excursion> excursions);

}  // namespace reveal
