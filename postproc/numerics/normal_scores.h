// Normal scores: a series replaced by the normal quantiles of its ranks. Bounds every spike and makes jiffies, bytes
// and nanoseconds comparable; any strictly increasing transform of the input gives the same result.
#pragma once

#include <cstddef>
#include <span>

namespace reveal {

struct RankSummary {
  std::size_t present = 0;           // not NaN
  std::size_t away_from_median = 0;  // present and different from the median
  double squares = 0;                // sum of the squared scores, in the order of the samples
};

/// scores = Phi^-1((rank - 0.5) / n) minus their mean; ties share the mean rank, missing values get 0.
RankSummary normal_scores(std::span<const double> values, std::span<float> scores);

}  // namespace reveal
