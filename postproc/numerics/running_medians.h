// A series without its single spikes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reveal {

/// The median of the `width` values around each one, fewer at both ends; `width` is odd. Missing values are left out.
[[nodiscard]] std::vector<double> running_medians(std::span<const double> values, std::size_t width);

}  // namespace reveal
