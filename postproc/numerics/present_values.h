// The measured values of a series: these passes run several times over every channel of every job.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace reveal {

struct PresentValues {
  std::size_t present = 0;  // not NaN
  double sum = 0;           // sum of four interleaved parts: its rounding differs from that of a simple sum
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  [[nodiscard]] bool constant() const { return !(low < high); }  // or nothing present
  /// NaN where nothing is present.
  [[nodiscard]] double mean() const { return sum / static_cast<double>(present); }
};
[[nodiscard]] PresentValues present_values(std::span<const double> values);
[[nodiscard]] inline double mean_of(std::span<const double> values) {
  return present_values(values).mean();
}

[[nodiscard]] bool any_missing(std::span<const double> values);

/// Values that differ from the last one present before them.
[[nodiscard]] std::size_t changes_in(std::span<const double> values, double before);

/// Copies all but stretches of zeros: `to` holds zeros, and memory that was never written costs nothing
/// (CallocAllocator). Returns whether there was anything else.
bool copy_onto_zeros(std::span<const double> from, std::span<double> to);

}  // namespace reveal
