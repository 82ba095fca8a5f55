#include "postproc/detect/scan/reference_means.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace reveal {

ReferenceMeans::ReferenceMeans(const ScanInput& input, const ScanScale& scale)
    : input_(input), length_(scale.samples(kReferenceSeconds)), sums_(input.series.size()) {}

void ReferenceMeans::sum_up(std::size_t series) {
  prefix_sums(input_.of(series), prefix_);
  sums_[series] = {.known = true, .all = sums_of_means(prefix_, length_)};
}

double ReferenceMeans::z(std::size_t series, std::size_t begin, std::size_t end) {
  const double variance = input_.series[series].variance * input_.series[series].hold;
  if (variance <= 0) return 0;
  if (end - begin < length_ || input_.samples < length_) {  // reference means are no longer than the interval
    prefix_sums(input_.of(series), prefix_);
    return z_outside(prefix_, variance, length_, begin, end);
  }
  const std::size_t all = input_.samples - length_ + 1;
  const std::size_t first = begin - std::min(begin, length_ - 1);  // the first mean that reaches into the interval
  const std::size_t last = std::min(end, all);
  const auto outside = static_cast<double>(all - (last - first));
  if (outside == 0) return 0;
  if (!sums_[series].known) sum_up(series);

  const auto scores = input_.of(series);
  prefix_sums(scores.subspan(first, std::min(input_.samples, last + length_ - 1) - first), prefix_);
  const MeanSums& all_means = sums_[series].all;
  const MeanSums inner = sums_of_means(prefix_, length_);  // those that reach into it
  const double center = (all_means.means - inner.means) / outside;
  const double spread = std::max(0.0, (all_means.squares - inner.squares) / outside - center * center);
  const auto length = static_cast<double>(end - begin);
  const double inside = (prefix_[end - first] - prefix_[begin - first]) / length;
  return (inside - center) / std::sqrt(spread * static_cast<double>(length_) / length + variance / length);
}

}  // namespace reveal
