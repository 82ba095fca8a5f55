// Windows as the ensemble sees them: every feature of every channel against its own median, in robust units, on a
// logarithmic scale. Features are computed channel by channel and not kept; the remaining data grows with windows x
// channels.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/detect/windows/layers.h"
#include "postproc/features/window_grid.h"
#include "postproc/numerics/principal_components.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The baseline of a feature.
enum class Baseline : std::uint8_t {
  whole,        // its median over all windows
  time_of_day,  // also its usual value at this time of day
};

struct RobustWindows {
  std::size_t windows = 0;
  std::vector<std::size_t> channels;  // that vary; indices into Telemetry::channels, layer by layer

  // [window, channel]; g = sign(z) log(1 + |z|).
  Eigen::MatrixXf evidence;    // mean of the three largest |g|
  Eigen::MatrixXf explaining;  // the five largest: they attribute the score to a channel
  Eigen::MatrixXf z;           // z of the feature with the largest |z|
  Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic> feature;  // its place in features()

  // [window, window] inner products of g.
  Eigen::MatrixXd gram;
  Eigen::MatrixXd level_gram;  // only mean, minimum, maximum and median
  std::size_t gram_features = 0;

  // Components of the least strange nine tenths of the windows; none for other baselines than `whole`.
  PrincipalComponents components;
  Eigen::Index kept = 0;  // components that hold 90 % of the core's variance, at most 40

  // The layers with windows that differ; none for other baselines than `whole`.
  std::vector<LayerWindows> layers;
  double independent = 1;  // the share of a window that the next one does not have

  std::vector<float> features;  // g, [channel][feature of robust_features()][window]; empty unless kept

  double explained_by_time_of_day = 0;  // share of the deviation, median over the channels
};

/// One entry per baseline, in their order. `windows_per_day`: for the time of day. Channels of reveal itself and of
/// kind state are left out; so are, beyond 4,000 channels, some from the inner products (every second, third, ...).
[[nodiscard]] std::vector<RobustWindows> robust_windows(const Telemetry& telemetry, const WindowGrid& grid,
                                                        std::span<const Baseline> baselines, double windows_per_day);

/// Against Baseline::whole alone, and with the data for for_each_channel(), if it is not too much to keep.
[[nodiscard]] RobustWindows robust_windows_with_features(const Telemetry& telemetry, const WindowGrid& grid);

/// Calls `use` with g of every channel of `windows` in turn, [feature of robust_features()][window]: for code that
/// needs the features again that robust_windows() did not keep.
void for_each_channel(const Telemetry& telemetry, const WindowGrid& grid, const RobustWindows& windows,
                      const std::function<void(std::size_t index, std::span<const float> g)>& use);

/// Robust centre and scale: max(1.4826 MAD, (q95 - q5) / 3.29), the mean deviation where both are 0; 0 for constants.
struct RobustScale {
  double centre = 0;
  double scale = 0;
};
/// `values`: finite; their order is lost.
[[nodiscard]] RobustScale robust_scale(std::span<double> values);

/// The features of features() that the ensemble looks at: those that are no function of another one.
inline constexpr std::size_t kRobustFeatures = 13;
[[nodiscard]] std::span<const std::size_t> robust_features();

}  // namespace reveal
