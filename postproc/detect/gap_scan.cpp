#include "postproc/detect/gap_scan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

namespace reveal {

namespace {

constexpr double kOutsideSeconds = 5;
constexpr double kStepSeconds = 0.5;
constexpr double kShortOutsideSeconds = 3;
constexpr double kShortLengthsSeconds[] = {3, 4};
constexpr double kLengthsSeconds[] = {5, 7, 10, 14, 20, 28};
constexpr double kLongLengthSeconds = 40;  // 40, 60, 80, 120, 160, 240, ...
constexpr double kMaxShare = 0.4;          // of the job: the outside must remain the larger part
constexpr double kOpenEndFrom = 0.3;       // of the job: where an event that never ends may begin
constexpr double kOpenEndTo = 0.6;
constexpr std::size_t kCombined = 20;
constexpr std::size_t kOneInSeries = 20;

constexpr double kTwinStepSeconds = 1;
constexpr double kTwinLengthsSeconds[] = {5, 10, 20};
constexpr double kTwinLikeness = 0.8;  // cosine of their mean scores
constexpr std::size_t kMostTwins = 3;
constexpr std::size_t kTwinSeries = 250;  // are enough to look for them

constexpr std::size_t kRefiningSeries = 15;
constexpr double kMaxWeight = 10;
constexpr double kRefineBeginSeconds = 6;
constexpr double kRefineEndSeconds = 8;
constexpr double kRefineShare = 0.3;  // of the interval: lengths are scanned in steps of 1.4
constexpr double kShortestSeconds = 1;

/// The k largest values seen, k fixed: a min-heap, since nearly all offers are refused.
class Largest {
 public:
  void offer(float value, std::size_t most) {
    if (heap_.size() < most) {
      heap_.push_back(value);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    } else if (value > heap_.front()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.back() = value;
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }
  [[nodiscard]] double mean(std::size_t most) const {
    double sum = 0;
    for (const float value : heap_) sum += value;
    return sum / static_cast<double>(most);
  }

 private:
  std::vector<float> heap_;
};

}  // namespace

SeriesScan::SeriesScan(std::span<const float> scores, double variance, double hold, std::size_t outside_length)
    : samples_(scores.size()), variance_(variance * hold), prefix_(samples_ + 1) {
  double sum = 0;
  for (std::size_t t = 0; t < samples_; ++t) prefix_[t + 1] = sum += scores[t];
  set_outside(outside_length);
}

void SeriesScan::set_outside(std::size_t length) {
  outside_length_ = length;
  const std::size_t n = samples_ < length ? 0 : samples_ - length + 1;
  before_max_.resize(n);
  if (n == 0) return;
  const double share = 1 / static_cast<double>(length);
  for (std::size_t s = 0; s < n; ++s) before_max_[s] = static_cast<float>((prefix_[s + length] - prefix_[s]) * share);
  before_min_ = after_max_ = after_min_ = before_max_;
  for (std::size_t s = 1; s < n; ++s) {
    before_max_[s] = std::max(before_max_[s], before_max_[s - 1]);
    before_min_[s] = std::min(before_min_[s], before_min_[s - 1]);
  }
  for (std::size_t s = n - 1; s > 0; --s) {
    after_max_[s - 1] = std::max(after_max_[s - 1], after_max_[s]);
    after_min_[s - 1] = std::min(after_min_[s - 1], after_min_[s]);
  }
}

float SeriesScan::gap(std::size_t begin, std::size_t end) const {
  const std::size_t n = before_max_.size();
  float high = -INFINITY;
  float low = INFINITY;
  if (begin >= outside_length_) {
    high = before_max_[begin - outside_length_];
    low = before_min_[begin - outside_length_];
  }
  if (end < n) {
    high = std::max(high, after_max_[end]);
    low = std::min(low, after_min_[end]);
  }
  if (low > high || variance_ <= 0) return 0;
  const auto inside = static_cast<float>(mean(begin, end));
  const float beyond = std::max({0.0F, inside - high, low - inside});
  return beyond == 0 ? 0 : beyond / static_cast<float>(std::sqrt(variance_ / static_cast<double>(end - begin)));
}

void SeriesScan::gaps(std::size_t length, std::size_t step, std::span<float> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = gap(i * step, i * step + length);
}

double SeriesScan::z(std::size_t begin, std::size_t end) const {
  const std::size_t outside = std::min(outside_length_, end - begin);
  double sum = 0;
  double squares = 0;
  double n = 0;
  for (std::size_t s = 0; s + outside <= samples_; ++s) {
    if (s + outside > begin && s < end) continue;
    const double m = mean(s, s + outside);
    sum += m;
    squares += m * m;
    n += 1;
  }
  if (n == 0 || variance_ <= 0) return 0;
  const double center = sum / n;
  const double spread = std::max(0.0, squares / n - center * center);
  const auto length = static_cast<double>(end - begin);
  return (mean(begin, end) - center) / std::sqrt(spread * static_cast<double>(outside) / length + variance_ / length);
}

ScanOptions scan_options(const ScanScale& scale, std::size_t samples) {
  ScanOptions options{.step = scale.samples(kStepSeconds)};
  const double longest = kMaxShare * static_cast<double>(samples);
  ScanLengths some{.outside = scale.samples(kShortOutsideSeconds)};
  const auto add = [&](double seconds) {
    const std::size_t length = scale.samples(seconds);
    if (static_cast<double>(length) <= longest) some.lengths.push_back(length);
    return static_cast<double>(length) <= longest;
  };
  for (const double seconds : kShortLengthsSeconds) add(seconds);
  if (!some.lengths.empty()) options.sizes.push_back(std::exchange(some, {}));
  some.outside = scale.samples(kOutsideSeconds);
  for (const double seconds : kLengthsSeconds) add(seconds);
  for (double seconds = kLongLengthSeconds; add(seconds) && add(1.5 * seconds);) seconds *= 2;
  if (!some.lengths.empty()) options.sizes.push_back(std::move(some));
  return options;
}

std::size_t combined_series(std::size_t detecting) {
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
  const std::size_t most = combined_series(used.size());
  if (intervals.empty()) return intervals;
  std::vector<Largest> largest(intervals.size());
  std::vector<float> gaps;
  for (const std::size_t i : used) {
    const ScanSeries& series = input.series[i];
    std::size_t first = 0;
    SeriesScan scan(input.of(i).subspan(options.first, samples), series.variance, series.hold,
                    options.sizes.front().outside);
    for (const ScanLengths& size : options.sizes) {
      if (&size != &options.sizes.front()) scan.set_outside(size.outside);
      for (const std::size_t length : size.lengths) {
        gaps.resize((samples - length) / options.step + 1);
        scan.gaps(length, options.step, gaps);
        for (std::size_t k = 0; k < gaps.size(); ++k) {
          if (gaps[k] > 0) largest[first + k].offer(gaps[k], most);
        }
        first += gaps.size();
      }
      if (&size != &options.sizes.back()) continue;
      for (std::size_t k = closed; k < intervals.size(); ++k) {
        const float gap = scan.gap(intervals[k].begin, intervals[k].end);
        if (gap > 0) largest[k].offer(gap, most);
      }
    }
  }
  for (std::size_t k = 0; k < intervals.size(); ++k) {
    intervals[k] = {intervals[k].begin + options.first, intervals[k].end + options.first, largest[k].mean(most)};
  }
  return intervals;
}

double score_without(const ScanInput& input, const ScoredInterval& interval, std::vector<ScoredInterval> others,
                     const ScanScale& scale) {
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::size_t cut = 0;  // samples before the interval
  for (const ScoredInterval& other : others) cut += other.begin < interval.begin ? other.end - other.begin : 0;
  const std::size_t outside = std::min(scale.samples(kOutsideSeconds), interval.end - interval.begin);
  const auto detecting = static_cast<std::size_t>(
      std::count_if(input.series.begin(), input.series.end(), [](const ScanSeries& s) { return s.detects; }));
  const std::size_t most = combined_series(detecting);
  Largest largest;
  std::vector<float> rest;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    const ScanSeries& series = input.series[i];
    if (!series.detects) continue;
    const auto scores = input.of(i);
    rest.clear();
    auto from = scores.begin();
    for (const ScoredInterval& other : others) {
      rest.insert(rest.end(), from, scores.begin() + static_cast<std::ptrdiff_t>(other.begin));
      from = scores.begin() + static_cast<std::ptrdiff_t>(other.end);
    }
    rest.insert(rest.end(), from, scores.end());
    const float gap =
        SeriesScan(rest, series.variance, series.hold, outside).gap(interval.begin - cut, interval.end - cut);
    if (gap > 0) largest.offer(gap, most);
  }
  return largest.mean(most);
}

namespace {

/// Mean score of every detecting series inside the interval, Euclidean norm 1.
std::vector<double> signature(const ScanInput& input, const ScoredInterval& interval) {
  std::vector<double> means;
  double squares = 0;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (!input.series[i].detects) continue;
    const auto inside = input.of(i).subspan(interval.begin, interval.end - interval.begin);
    means.push_back(std::accumulate(inside.begin(), inside.end(), 0.0));
    squares += means.back() * means.back();
  }
  if (squares > 0) {
    for (double& mean : means) mean /= std::sqrt(squares);
  }
  return means;
}

bool overlap(const ScoredInterval& a, const ScoredInterval& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

std::vector<std::vector<ScoredInterval>> find_twins(const ScanInput& input, const ScanScale& scale, double least) {
  // A third of the job shows one of them without the other; thirds overlap by half, lengths and begins are rough.
  ScanOptions options{.step = scale.samples(kTwinStepSeconds), .samples = input.samples / 3};
  options.sizes.push_back({.outside = scale.samples(kOutsideSeconds)});
  for (const double seconds : kTwinLengthsSeconds) options.sizes[0].lengths.push_back(scale.samples(seconds));
  const auto detecting = static_cast<std::size_t>(
      std::count_if(input.series.begin(), input.series.end(), [](const ScanSeries& s) { return s.detects; }));
  options.every = detecting / kTwinSeries + 1;
  std::vector<ScoredInterval> found;
  for (options.first = 0; options.first + options.samples <= input.samples; options.first += options.samples / 2) {
    std::vector<ScoredInterval> intervals = scan_intervals(input, options);
    std::stable_sort(intervals.begin(), intervals.end(), [](auto& a, auto& b) { return a.score > b.score; });
    for (const ScoredInterval& interval : intervals) {
      if (interval.score < least) break;
      if (std::any_of(found.begin(), found.end(), [&](auto& other) { return overlap(interval, other); })) continue;
      const ScoredInterval refined = refine(input, interval, scale);
      if (std::any_of(found.begin(), found.end(), [&](auto& other) { return overlap(refined, other); })) continue;
      found.push_back(refined);
    }
  }

  std::vector<std::vector<double>> signatures;
  signatures.reserve(found.size());
  for (const ScoredInterval& interval : found) signatures.push_back(signature(input, interval));
  std::vector<bool> grouped(found.size());
  std::vector<std::vector<ScoredInterval>> groups;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (grouped[i]) continue;
    std::vector<ScoredInterval> group{found[i]};
    for (std::size_t k = i + 1; k < found.size(); ++k) {
      const double alike = std::inner_product(signatures[i].begin(), signatures[i].end(), signatures[k].begin(), 0.0);
      if (grouped[k] || alike < kTwinLikeness) continue;
      grouped[k] = true;
      group.push_back(found[k]);
    }
    if (group.size() < 2 || group.size() > kMostTwins) continue;
    std::vector<ScoredInterval> scored = group;
    for (std::size_t g = 0; g < group.size(); ++g) {
      std::vector<ScoredInterval> others = group;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(g));
      scored[g].score = score_without(input, group[g], others, scale);
    }
    groups.push_back(std::move(scored));
  }
  return groups;
}

ScoredInterval refine(const ScanInput& input, const ScoredInterval& interval, const ScanScale& scale) {
  std::vector<std::pair<double, std::size_t>> loudest;  // z, series
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    const ScanSeries& series = input.series[i];
    if (!series.detects) continue;
    const SeriesScan scan(input.of(i), series.variance, series.hold, scale.samples(kOutsideSeconds));
    loudest.emplace_back(scan.z(interval.begin, interval.end), i);
  }
  const std::size_t used = std::min(kRefiningSeries, loudest.size());
  std::partial_sort(loudest.begin(), loudest.begin() + static_cast<std::ptrdiff_t>(used), loudest.end(),
                    [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });

  std::vector<double> prefix(input.samples + 1);  // of the weighted sum; the scores have mean 0
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
  for (std::size_t b = first_begin; b <= interval.begin + begin_reach; ++b) {
    for (std::size_t e = std::max(b + shortest, interval.end - std::min(end_reach, interval.end)); e <= last_end; ++e) {
      const auto n = static_cast<double>(e - b);
      if (e - b >= input.samples) continue;
      const double value = (prefix[e] - prefix[b]) / std::sqrt(n * (1 - n / total));
      if (value > best_sum) {
        best_sum = value;
        best.begin = b;
        best.end = e;
      }
    }
  }
  return best;
}

}  // namespace reveal
