#include "postproc/detect/scan/interval_scan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "postproc/detect/scan/series_scan.h"
#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

constexpr double kStepSeconds = 0.5;
constexpr double kShortReferenceSeconds = 3;  // for the shortest lengths
constexpr double kShortLengthsSeconds[] = {3, 4};
constexpr double kLengthsSeconds[] = {5, 7, 10, 14, 20, 28};
constexpr double kLongLengthSeconds = 40;  // 40, 60, 80, 120, 160, 240, ...
constexpr double kMaxShare = 0.4;          // share of the job: the outside must remain the larger part
constexpr double kOpenEndFrom = 0.3;       // share of the job after which an event that never ends may begin
constexpr double kOpenEndTo = 0.6;
constexpr std::size_t kCombined = 20;
constexpr std::size_t kOneInSeries = 20;
constexpr std::size_t kOneInFewSeries = 3;
constexpr std::size_t kFewestCombined = 3;

constexpr std::size_t kRefiningSeries = 15;
constexpr double kMaxWeight = 10;
constexpr double kRefineBeginSeconds = 6;
constexpr double kRefineEndSeconds = 8;
constexpr double kRefineShare = 0.3;  // share of the interval: lengths are scanned in steps of 1.4
constexpr double kShortestSeconds = 1;

/// Whether one of 4 * n values is larger than the one at its place in `least`.
REVEAL_WIDE bool any_larger(const float* values, const float* least, std::size_t n) {
  auto larger = *reinterpret_cast<const WideFloats*>(values) > *reinterpret_cast<const WideFloats*>(least);
  for (std::size_t i = 1; i < n; ++i) {
    larger |= *reinterpret_cast<const WideFloats*>(values + i * kWide) >
              *reinterpret_cast<const WideFloats*>(least + i * kWide);
  }
  return (larger[0] | larger[1] | larger[2] | larger[3]) != 0;
}

/// The k largest gaps of every interval, k fixed: min-heaps, since nearly all offers are refused.
class LargestGaps {
 public:
  LargestGaps(std::size_t intervals, std::size_t most) : most_(most), heaps_(intervals), least_(intervals) {}

  /// One gap each for the intervals from `first` on.
  void offer(std::size_t first, std::span<const float> gaps) {
    constexpr std::size_t kAtOnce = 8;  // vectors
    const std::span<const float> least = std::span(least_).subspan(first, gaps.size());
    for (std::size_t begin = 0; begin < gaps.size(); begin += kAtOnce * kWide) {
      const std::size_t end = std::min(gaps.size(), begin + kAtOnce * kWide);
      if (end - begin == kAtOnce * kWide && !any_larger(gaps.data() + begin, least.data() + begin, kAtOnce)) continue;
      for (std::size_t k = begin; k < end; ++k) {
        if (gaps[k] > least[k]) insert(first + k, gaps[k]);
      }
    }
  }
  /// Gaps that were never offered count as zeros.
  [[nodiscard]] double mean(std::size_t interval) const {
    double sum = 0;
    for (const float value : heaps_[interval]) sum += value;
    return sum / static_cast<double>(most_);
  }

 private:
  void insert(std::size_t interval, float gap) {
    std::vector<float>& heap = heaps_[interval];
    if (heap.size() == most_) {
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      heap.back() = gap;
    } else {
      heap.push_back(gap);
    }
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (heap.size() == most_) least_[interval] = heap.front();
  }

  std::size_t most_;
  std::vector<std::vector<float>> heaps_;
  std::vector<float> least_;  // that is accepted: the heap's own, 0 until it is full
};

/// Begins between which an end has to choose: the corners of the lower convex hull of the prefix sums. For a given end,
/// the best quotient of a sum and its spread lies on one of them, because the spread is a concave function of the
/// length. They are few, whatever the sampling rate, so that not all pairs of a begin and an end are tried.
class BeginCorners {
 public:
  explicit BeginCorners(std::span<const double> prefix) : prefix_(prefix) {}

  /// In ascending order.
  void add(std::size_t begin) {
    while (corners_.size() > 1 && !is_below(corners_.back(), corners_[corners_.size() - 2], begin)) corners_.pop_back();
    corners_.push_back(begin);
  }
  [[nodiscard]] std::span<const std::size_t> all() const { return corners_; }

 private:
  /// Whether the prefix sum at `middle` is below the line from `first` to `last`.
  [[nodiscard]] bool is_below(std::size_t middle, std::size_t first, std::size_t last) const {
    return (prefix_[middle] - prefix_[first]) * static_cast<double>(last - first) <
           (prefix_[last] - prefix_[first]) * static_cast<double>(middle - first);
  }

  std::span<const double> prefix_;
  std::vector<std::size_t> corners_;
};

}  // namespace

ScanOptions scan_options(const ScanScale& scale, std::size_t samples) {
  ScanOptions options{.step = scale.samples(kStepSeconds)};
  const double longest = kMaxShare * static_cast<double>(samples);
  ScanLengths some{.reference = scale.samples(kShortReferenceSeconds)};
  const auto add = [&](double seconds) {
    const std::size_t length = scale.samples(seconds);
    if (static_cast<double>(length) <= longest) some.lengths.push_back(length);
    return static_cast<double>(length) <= longest;
  };
  for (const double seconds : kShortLengthsSeconds) add(seconds);
  if (!some.lengths.empty()) options.sizes.push_back(std::exchange(some, {}));
  some.reference = scale.samples(kReferenceSeconds);
  for (const double seconds : kLengthsSeconds) add(seconds);
  for (double seconds = kLongLengthSeconds; add(seconds) && add(1.5 * seconds);) seconds *= 2;
  if (!some.lengths.empty()) options.sizes.push_back(std::move(some));
  return options;
}

std::size_t combined_series(std::size_t detecting, ScanOf of) {
  if (of == ScanOf::job && detecting < kOneInFewSeries * kCombined) {
    return std::max(kFewestCombined, detecting / kOneInFewSeries);
  }
  return std::max(kCombined, detecting / kOneInSeries);
}

std::vector<ScoredInterval> scan_intervals(const ScanInput& input, const ScanOptions& options) {
  const std::size_t samples = options.samples == 0 ? input.samples : options.samples;
  std::vector<ScoredInterval> intervals;
  for (const ScanLengths& size : options.sizes) {
    for (const std::size_t length : size.lengths) {
      for (std::size_t b = 0; b + length <= samples; b += options.step) intervals.push_back({b, b + length, 0});
    }
  }
  const std::size_t closed = intervals.size();
  if (options.open_end && !options.sizes.empty()) {
    const auto total = static_cast<double>(samples);
    for (auto b = static_cast<std::size_t>(kOpenEndFrom * total); static_cast<double>(b) <= kOpenEndTo * total;
         b += options.step) {
      intervals.push_back({b, samples, 0});
    }
  }
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (input.series[i].detects) used.push_back(i);
  }
  for (std::size_t i = 0; i * options.every < used.size(); ++i) used[i] = used[i * options.every];
  used.resize((used.size() + options.every - 1) / options.every);
  const std::size_t most = combined_series(used.size(), input.of_what);
  if (intervals.empty()) return intervals;
  LargestGaps largest(intervals.size(), most);
  std::vector<float> gaps;
  SeriesScan scan;
  for (const std::size_t i : used) {
    const ScanSeries& series = input.series[i];
    std::size_t first = 0;
    scan.assign(input.of(i).subspan(options.first, samples), series.variance, series.hold);
    for (const ScanLengths& size : options.sizes) {
      scan.set_reference_length(size.reference);
      for (const std::size_t length : size.lengths) {
        gaps.resize((samples - length) / options.step + 1);
        scan.gaps(length, options.step, gaps);
        largest.offer(first, gaps);
        first += gaps.size();
      }
    }
    if (closed == intervals.size()) continue;
    gaps.resize(intervals.size() - closed);
    scan.open_gaps(intervals[closed].begin, options.step, gaps);
    largest.offer(closed, gaps);
  }
  for (std::size_t k = 0; k < intervals.size(); ++k) {
    intervals[k] = {intervals[k].begin + options.first, intervals[k].end + options.first, largest.mean(k)};
  }
  return intervals;
}

std::span<const float> cut_out(std::span<const float> scores, std::span<const ScoredInterval> intervals,
                               std::vector<float>& rest) {
  if (intervals.empty()) return scores;
  rest.clear();
  auto from = scores.begin();
  for (const ScoredInterval& interval : intervals) {
    rest.insert(rest.end(), from, scores.begin() + static_cast<std::ptrdiff_t>(interval.begin));
    from = scores.begin() + static_cast<std::ptrdiff_t>(interval.end);
  }
  rest.insert(rest.end(), from, scores.end());
  return rest;
}

ScoredInterval refine(ReferenceMeans& reference, const ScoredInterval& interval, const ScanScale& scale) {
  const ScanInput& input = reference.input();
  std::vector<std::pair<double, std::size_t>> loudest;  // z, series
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (input.series[i].detects) loudest.emplace_back(reference.z(i, interval.begin, interval.end), i);
  }
  const std::size_t used = std::min(kRefiningSeries, loudest.size());
  std::partial_sort(loudest.begin(), loudest.begin() + static_cast<std::ptrdiff_t>(used), loudest.end(),
                    [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });

  std::vector<double> prefix(input.samples + 1);  // prefix of the weighted sum; the scores have mean 0
  for (std::size_t k = 0; k < used; ++k) {
    const auto [z, i] = loudest[k];
    const double weight = std::clamp(z, -kMaxWeight, kMaxWeight);
    double sum = 0;
    const auto scores = input.of(i);
    for (std::size_t t = 0; t < input.samples; ++t) prefix[t + 1] += weight * (sum += scores[t]);
  }

  const auto share = static_cast<std::size_t>(kRefineShare * static_cast<double>(interval.end - interval.begin));
  const std::size_t begin_reach = std::max(scale.samples(kRefineBeginSeconds), share);
  const std::size_t end_reach = std::max(scale.samples(kRefineEndSeconds), share);
  const std::size_t shortest = scale.samples(kShortestSeconds);
  const auto total = static_cast<double>(input.samples);
  ScoredInterval best = interval;
  double best_sum = 0;
  const std::size_t first_begin = interval.begin - std::min(begin_reach, interval.begin);
  const std::size_t last_end = std::min(input.samples, interval.end + end_reach);
  std::vector<double> spread(last_end - first_begin + 1);  // spread of the sum of so many samples
  for (std::size_t i = 0; i < spread.size(); ++i) {
    const auto n = static_cast<double>(i);
    spread[i] = std::sqrt(n * (1 - n / total));
  }
  const auto offer = [&](std::size_t b, std::size_t e) {
    const double value = (prefix[e] - prefix[b]) / spread[e - b];
    if (value > best_sum) {
      best_sum = value;
      best.begin = b;
      best.end = e;
    }
  };
  BeginCorners corners(prefix);
  std::size_t next_begin = first_begin;
  const std::size_t first_end = interval.end - std::min(end_reach, interval.end);
  for (std::size_t e = std::max(first_begin + shortest, first_end); e <= last_end; ++e) {
    const std::size_t last_begin = std::min(interval.begin + begin_reach, e - shortest);
    for (; next_begin <= last_begin; ++next_begin) corners.add(next_begin);
    if (e == input.samples) {  // the whole job is no interval, and it may hide others behind its corner
      for (std::size_t b = std::max<std::size_t>(1, first_begin); b <= last_begin; ++b) offer(b, e);
    } else {
      for (const std::size_t b : corners.all()) offer(b, e);
    }
  }
  return best;
}

}  // namespace reveal
