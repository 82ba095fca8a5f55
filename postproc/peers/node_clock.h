// How well the clocks of two nodes are known against each other.
#pragma once

namespace reveal {

/// By how much times of two nodes may be apart that are the same, in seconds. Nodes of one boot of a kernel have one
/// clock.
[[nodiscard]] double clock_error_between(const auto& a, const auto& b) {
  const bool one_clock = a.node == b.node || (!a.boot_id.empty() && a.boot_id == b.boot_id);
  return one_clock ? 0 : a.clock_error_seconds + b.clock_error_seconds;
}

}  // namespace reveal
