#include "postproc/detect/scan/reference_means.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "postproc/detect/scan/series_scan.h"
#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

/// Adds the means of `length` scores that begin at [0, n), and their squares.
REVEAL_WIDE void add_means(const double* prefix, std::size_t length, std::size_t n, double* sum, double* squares) {
  const auto count = static_cast<double>(length);
  Wide sums{};
  Wide all_squares{};
  std::size_t s = 0;
  for (; s + kWide <= n; s += kWide) {
    const Wide mean =
        (*reinterpret_cast<const Wide*>(prefix + s + length) - *reinterpret_cast<const Wide*>(prefix + s)) / count;
    sums += mean;
    all_squares += mean * mean;
  }
  for (unsigned lane = 0; lane < kWide; ++lane) {
    *sum += sums[lane];
    *squares += all_squares[lane];
  }
  for (; s < n; ++s) {
    const double mean = (prefix[s + length] - prefix[s]) / count;
    *sum += mean;
    *squares += mean * mean;
  }
}

void prefix_sums(std::span<const float> scores, std::vector<double>& prefix) {
  prefix.resize(scores.size() + 1);
  double sum = 0;
  for (std::size_t t = 0; t < scores.size(); ++t) prefix[t + 1] = sum += scores[t];
}

}  // namespace

ReferenceMeans::ReferenceMeans(const ScanInput& input, const ScanScale& scale)
    : input_(input), length_(scale.samples(kReferenceSeconds)), sums_(input.series.size()), prefix_{0.0} {}

void ReferenceMeans::sum_up(std::size_t series) {
  Sums& sums = sums_[series];
  sums.known = true;
  prefix_sums(input_.of(series), prefix_);
  add_means(prefix_.data(), length_, input_.samples - length_ + 1, &sums.means, &sums.squares);
}

double ReferenceMeans::z(std::size_t series, std::size_t begin, std::size_t end) {
  const ScanSeries& about = input_.series[series];
  if (end - begin < length_ || input_.samples < length_) {  // reference means are no longer than the interval
    return SeriesScan(input_.of(series), about.variance, about.hold, length_).z(begin, end);
  }
  const double variance = about.variance * about.hold;
  const std::size_t all = input_.samples - length_ + 1;
  const std::size_t first = begin - std::min(begin, length_ - 1);  // the first mean that reaches into the interval
  const std::size_t last = std::min(end, all);
  const auto outside = static_cast<double>(all - (last - first));
  if (outside == 0 || variance <= 0) return 0;
  if (!sums_[series].known) sum_up(series);

  const auto scores = input_.of(series);
  prefix_sums(scores.subspan(first, std::min(input_.samples, last + length_ - 1) - first), prefix_);
  double means = 0;
  double squares = 0;
  add_means(prefix_.data(), length_, last - first, &means, &squares);
  const double center = (sums_[series].means - means) / outside;
  const double spread = std::max(0.0, (sums_[series].squares - squares) / outside - center * center);
  const auto length = static_cast<double>(end - begin);
  const double inside = (prefix_[end - first] - prefix_[begin - first]) / length;
  return (inside - center) / std::sqrt(spread * static_cast<double>(length_) / length + variance / length);
}

}  // namespace reveal
