// Correlation-driven pruning after section 4.1 of the paper: of channels that correlate beyond a threshold only one is
// kept, by a fixed priority table (utilisation and throughput first), then by the variance of its correlations.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

inline constexpr double kPaperCorrelation = 0.5;

/// |Pearson's r| of every channel that moves with every other one.
struct ChannelCorrelation {
  std::vector<std::size_t> channels;  // channels of the telemetry, in its order
  Eigen::MatrixXf r;
};

/// Without channels of reveal itself, states, static and strictly periodic ones. Looks at samples
/// [begin, begin + samples).
[[nodiscard]] ChannelCorrelation correlate(const Telemetry& telemetry, std::size_t begin, std::size_t samples);

/// The same of all of a node in pieces that follow each other, of which one is in memory: each is loaded twice, unless
/// there is only one. A channel with a period longer than a third of a piece is not left out for it.
[[nodiscard]] ChannelCorrelation correlate(std::size_t pieces, const std::function<Telemetry(std::size_t)>& load);

/// Rows of `r`, ascending: of those that correlate beyond the threshold one is kept. `metrics` are the rows' names.
[[nodiscard]] std::vector<std::size_t> representatives(const Eigen::MatrixXf& r,
                                                       const std::vector<std::string>& metrics, double threshold);

/// Channels of reveal itself, static and strictly periodic ones are left out before pruning. The result is in the
/// telemetry's order. Looks at samples [begin, begin + samples).
[[nodiscard]] std::vector<std::size_t> prune(const Telemetry& telemetry, std::size_t begin, std::size_t samples,
                                             double threshold = kPaperCorrelation);

}  // namespace reveal
