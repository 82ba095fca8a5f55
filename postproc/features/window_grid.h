// Overlapping windows on a node's time grid.
#pragma once

#include <cstddef>
#include <string>

namespace reveal {

/// Window k is [begin + k * stride, begin + k * stride + length).
struct WindowGrid {
  std::size_t begin = 0;
  std::size_t length = 30;
  std::size_t stride = 10;
  std::size_t count = 0;

  [[nodiscard]] std::size_t first_sample(std::size_t window) const { return begin + window * stride; }
  [[nodiscard]] std::size_t end_sample(std::size_t window) const { return first_sample(window) + length; }
};

/// Fewer windows cannot be ranked.
inline constexpr std::size_t kLeastWindows = 30;
/// The samples that so many windows take: the one minimum length of a job.
[[nodiscard]] constexpr std::size_t least_samples(const WindowGrid& grid) {
  return grid.length + (kLeastWindows - 1) * grid.stride;
}
/// "27.5 s were recorded, at least 32 s are needed"
[[nodiscard]] std::string too_short(std::size_t samples, std::size_t least, double step_seconds);

/// A window with a larger missing share is ignored.
inline constexpr double kMaxMissing = 0.5;

/// A grid of as many whole windows as fit into `samples`.
[[nodiscard]] WindowGrid window_grid(double window_seconds, double stride_seconds, double step_seconds,
                                     std::size_t begin, std::size_t samples);

}  // namespace reveal
