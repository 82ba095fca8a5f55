#include "postproc/detect/scan/repeated_events.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "postproc/detect/scan/distinctness.h"
#include "postproc/detect/scan/series_scan.h"

namespace reveal {

namespace {

constexpr double kRepeatStepSeconds = 1;
constexpr double kRepeatLengthsSeconds[] = {5, 10, 20};
constexpr std::size_t kRepeatSeries = 250;  // are enough to look for them

}  // namespace

double score_without(const ScanInput& input, const ScoredInterval& interval, const std::vector<ScoredInterval>& others,
                     const ScanScale& scale) {
  std::size_t cut = 0;  // samples before the interval
  for (const ScoredInterval& other : others) cut += other.begin < interval.begin ? other.end - other.begin : 0;
  const std::size_t reference = std::min(scale.samples(kReferenceSeconds), interval.end - interval.begin);
  std::vector<float> gaps;
  std::vector<float> rest;
  SeriesScan scan;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    const ScanSeries& series = input.series[i];
    if (!series.detects) continue;
    scan.assign(cut_out(input.of(i), others, rest), series.variance, series.hold);
    scan.set_reference_length(reference);
    gaps.push_back(scan.gap(interval.begin - cut, interval.end - cut));
  }
  const std::size_t combined = combined_series(gaps.size(), input.of_what);
  const auto most = static_cast<std::ptrdiff_t>(std::min(combined, gaps.size()));
  std::partial_sort(gaps.begin(), gaps.begin() + most, gaps.end(), std::greater<>());
  return std::accumulate(gaps.begin(), gaps.begin() + most, 0.0) / static_cast<double>(combined);
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

std::vector<std::vector<ScoredInterval>> find_repeats(ReferenceMeans& reference, const ScanScale& scale, double least) {
  const ScanInput& input = reference.input();
  // A third of the job shows one of them without the other; thirds overlap by half, lengths and begins are rough.
  ScanOptions options{.step = scale.samples(kRepeatStepSeconds), .samples = input.samples / 3};
  options.sizes.push_back({.reference = scale.samples(kReferenceSeconds)});
  for (const double seconds : kRepeatLengthsSeconds) options.sizes[0].lengths.push_back(scale.samples(seconds));
  const auto detecting = static_cast<std::size_t>(
      std::count_if(input.series.begin(), input.series.end(), [](const ScanSeries& s) { return s.detects; }));
  options.every = detecting / kRepeatSeries + 1;
  std::vector<ScoredInterval> found;
  for (options.first = 0; options.first + options.samples <= input.samples; options.first += options.samples / 2) {
    std::vector<ScoredInterval> intervals = scan_intervals(input, options);
    std::erase_if(intervals, [&](const ScoredInterval& interval) { return interval.score < least; });
    std::stable_sort(intervals.begin(), intervals.end(), [](auto& a, auto& b) { return a.score > b.score; });
    for (const ScoredInterval& interval : intervals) {
      if (std::any_of(found.begin(), found.end(), [&](auto& other) { return overlap(interval, other); })) continue;
      const ScoredInterval refined = refine(reference, interval, scale);
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
      if (grouped[k] || alike < kRepeatLikeness) continue;
      grouped[k] = true;
      group.push_back(found[k]);
    }
    if (group.size() < 2 || group.size() > kMostRepeats) continue;
    std::sort(group.begin(), group.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::vector<ScoredInterval> scored = group;
    for (std::size_t g = 0; g < group.size(); ++g) {
      std::vector<ScoredInterval> others = group;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(g));
      scored[g].score = is_distinct(input, group[g], others, scale) ? score_without(input, group[g], others, scale) : 0;
    }
    groups.push_back(std::move(scored));
  }
  return groups;
}

}  // namespace reveal
