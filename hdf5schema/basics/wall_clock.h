// Now, for what is written down.
#pragma once

#include <chrono>
#include <cstdint>

namespace reveal {

[[nodiscard]] inline std::int64_t utc_now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace reveal
