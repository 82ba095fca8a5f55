// A sum that wraps where it overflows, as the kernel's counters do: a file or a text may hold any number.
#pragma once

#include <cstdint>

namespace reveal {

[[nodiscard]] constexpr std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace reveal
