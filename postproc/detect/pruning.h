// Correlation-driven pruning after section 4.1 of the paper: of channels that correlate beyond a threshold only one is
// kept, by a fixed priority table (utilisation and throughput first), then by the variance of its correlations.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "postproc/merge/telemetry.h"

namespace reveal {

inline constexpr double kPaperCorrelation = 0.5;

/// Channels of reveal itself, static and strictly periodic ones are left out before pruning. The result is in the
/// telemetry's order. Looks at samples [begin, begin + samples).
[[nodiscard]] std::vector<std::size_t> prune(const Telemetry& telemetry, std::size_t begin, std::size_t samples,
                                             double threshold = kPaperCorrelation);

/// 0 is kept first; metrics that the table does not name come last.
[[nodiscard]] int pruning_priority(std::string_view metric);

}  // namespace reveal
